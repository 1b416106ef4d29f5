//! The requests and responses of a connection.

use aqm_net::Span;
use aqm_traffic::{Conversation, Exchange};

/// The requests and responses of a connection.
#[derive(Debug)]
pub(super) struct Rounds {
    /// The exchanges in order; never empty.
    pub(super) all: Vec<Round>,
    pub(super) client_delay: Span,
    pub(super) server_delay: Span,
}

/// A request and its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// Pause of the client before it sends the request.
    pub(super) pause: Span,
    /// Length of the request in bytes, including headers.
    pub(super) request: u64,
    /// Think time of the server, from the arrival of the complete request to the start of the response.
    pub(super) think: Span,
    /// Length of the response in bytes, including headers; `None` if the response is endless.
    pub(super) response: Option<u64>,
}

impl Rounds {
    /// Returns a connection with one request and its response, without pauses.
    pub(super) fn once(request: u32, response: Option<u64>) -> Self {
        let round = Round { pause: Span::ZERO, request: request.into(), think: Span::ZERO, response };
        Self { all: vec![round], client_delay: Span::ZERO, server_delay: Span::ZERO }
    }

    /// Returns the requests and responses of a conversation.
    pub(super) fn of(conversation: &Conversation) -> Self {
        let round = |&Exchange { pause, request, think, response, .. }: &Exchange| Round {
            pause,
            request,
            think,
            response: Some(response),
        };
        let all = std::iter::once(&conversation.first).chain(&conversation.rest).map(round).collect();
        let (client_delay, server_delay) = (conversation.client_delay, conversation.server_delay);
        Self { all, client_delay, server_delay }
    }
}
