//! A transfer as its flow keeps it: in half the room, because there may be very many flows.

use aqm_traffic::Transfer;

/// A [`Transfer`]; what it may lack counts if its bit is set.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct KeptTransfer {
    bytes: u64,
    request: u32,
    page: u32,
    page_objects: u32,
    host: u32,
    has: u8,
}

const BYTES: u8 = 1;
const REQUEST: u8 = 2;
const PAGE: u8 = 4;

impl KeptTransfer {
    /// Payload bytes; `None` sends for ever.
    pub(crate) fn bytes(&self) -> Option<u64> {
        (self.has & BYTES > 0).then_some(self.bytes)
    }

    /// Bytes of the request that asks for it.
    pub(crate) fn request(&self) -> Option<u32> {
        (self.has & REQUEST > 0).then_some(self.request)
    }
}

impl From<Transfer> for KeptTransfer {
    fn from(Transfer { bytes, request, page, page_objects, host }: Transfer) -> Self {
        let bit = |has: bool, bit| if has { bit } else { 0 };
        Self {
            bytes: bytes.unwrap_or_default(),
            request: request.unwrap_or_default(),
            // There are no more pages than flows, whose numbers have 32 bits.
            page: page.unwrap_or_default() as u32,
            page_objects,
            host,
            has: bit(bytes.is_some(), BYTES) | bit(request.is_some(), REQUEST) | bit(page.is_some(), PAGE),
        }
    }
}

impl From<KeptTransfer> for Transfer {
    fn from(kept: KeptTransfer) -> Self {
        Self {
            bytes: kept.bytes(),
            request: kept.request(),
            page: (kept.has & PAGE > 0).then_some(kept.page.into()),
            page_objects: kept.page_objects,
            host: kept.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_given() {
        for has in 0..8 {
            let transfer = Transfer {
                bytes: (has & 1 > 0).then_some(5_000_000_000),
                request: (has & 2 > 0).then_some(0),
                page: (has & 4 > 0).then_some(4_000_000_000),
                page_objects: 7,
                host: 9,
            };
            assert_eq!(Transfer::from(KeptTransfer::from(transfer)), transfer);
        }
        assert!(size_of::<KeptTransfer>() <= 28);
    }
}
