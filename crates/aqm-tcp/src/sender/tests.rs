//! How much room a sender takes: there may be very many.

use super::*;
use crate::endpoint::Endpoint;
use crate::receiver::Receiver;

#[test]
fn an_end_is_a_cache_line_and_what_it_needs_to_send_four_and_a_half() {
    assert_eq!((size_of::<Endpoint>(), size_of::<Receiver>()), (64, 40));
    let (recovery, congestion, timer) =
        (size_of::<AnyRecovery>(), size_of::<Controller>(), size_of::<Timer>());
    assert!(size_of::<Sender>() <= 288, "{}: {recovery}, {congestion}, {timer}", size_of::<Sender>());
    assert!(recovery <= 64, "what acknowledgements move is one line: {recovery}");
}
