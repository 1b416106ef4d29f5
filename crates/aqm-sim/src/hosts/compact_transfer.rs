//! A compact form of a transfer. The compact form needs half as much memory, which is important because a run may have
//! very many flows.

use aqm_traffic::Transfer;

/// A [`Transfer`] with a bit for each optional value. An optional value is valid only if its bit is set.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
pub(crate) struct CompactTransfer {
    bytes: u64,
    request: u32,
    page: u32,
    page_objects: u32,
    host: u32,
    present: u8,
}

const BYTES: u8 = 1;
const REQUEST: u8 = 2;
const PAGE: u8 = 4;

impl CompactTransfer {
    /// Returns the number of payload bytes, or `None` for an endless transfer.
    pub(crate) fn bytes(&self) -> Option<u64> {
        (self.present & BYTES > 0).then_some(self.bytes)
    }

    /// Returns the size of the client's request in bytes, or `None` if the transfer has no request.
    pub(crate) fn request(&self) -> Option<u32> {
        (self.present & REQUEST > 0).then_some(self.request)
    }
}

impl From<Transfer> for CompactTransfer {
    fn from(Transfer { bytes, request, page, page_objects, host }: Transfer) -> Self {
        let bit = |present: bool, bit| if present { bit } else { 0 };
        Self {
            bytes: bytes.unwrap_or_default(),
            request: request.unwrap_or_default(),
            // The number of pages is at most the number of flows, which fits into 32 bits.
            page: page.unwrap_or_default() as u32,
            page_objects,
            host,
            present: bit(bytes.is_some(), BYTES)
                | bit(request.is_some(), REQUEST)
                | bit(page.is_some(), PAGE),
        }
    }
}

impl From<CompactTransfer> for Transfer {
    fn from(compact: CompactTransfer) -> Self {
        Self {
            bytes: compact.bytes(),
            request: compact.request(),
            page: (compact.present & PAGE > 0).then_some(compact.page.into()),
            page_objects: compact.page_objects,
            host: compact.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_transfer_equals_its_transfer() {
        for has in 0..8 {
            let transfer = Transfer {
                bytes: (has & 1 > 0).then_some(5_000_000_000),
                request: (has & 2 > 0).then_some(0),
                page: (has & 4 > 0).then_some(4_000_000_000),
                page_objects: 7,
                host: 9,
            };
            assert_eq!(Transfer::from(CompactTransfer::from(transfer)), transfer);
        }
        assert!(size_of::<CompactTransfer>() <= 28);
    }
}
