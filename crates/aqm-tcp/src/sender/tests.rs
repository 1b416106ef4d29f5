//! Tests of the memory per sender, which matters because a simulation may have very many senders.

use super::*;
use crate::endpoint::Endpoint;
use crate::receiver::Receiver;

#[test]
fn an_endpoint_needs_one_cache_line_and_its_sender_four_and_a_half() {
    assert_eq!((size_of::<Endpoint>(), size_of::<Receiver>()), (64, 40));
    let (recovery, congestion, timer) =
        (size_of::<AnyRecovery>(), size_of::<Controller>(), size_of::<Timer>());
    assert!(size_of::<Sender>() <= 288, "{}: {recovery}, {congestion}, {timer}", size_of::<Sender>());
    assert!(recovery <= 64, "the state changed by acknowledgements must fit into one cache line: {recovery}");
}
