//! What is asked and answered over a connection, in turn.

use aqm_net::Span;
use aqm_traffic::{Conversation, Exchange};

/// What is asked and answered over a connection.
#[derive(Debug)]
pub(super) struct Rounds {
    /// In turn; never empty.
    pub(super) all: Vec<Round>,
    pub(super) client_delay: Span,
    pub(super) server_delay: Span,
}

/// A request and its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// How long the client waits before it asks.
    pub(super) pause: Span,
    /// Bytes of the request on the connection.
    pub(super) request: u64,
    /// How long the server, which has the whole request, takes before it answers.
    pub(super) think: Span,
    /// Bytes of the response on the connection; `None` never ends.
    pub(super) response: Option<u64>,
}

impl Rounds {
    /// One request and its response, both at once.
    pub(super) fn once(request: u32, response: Option<u64>) -> Self {
        let round = Round { pause: Span::ZERO, request: request.into(), think: Span::ZERO, response };
        Self { all: vec![round], client_delay: Span::ZERO, server_delay: Span::ZERO }
    }

    /// Those of a conversation.
    pub(super) fn of(conversation: &Conversation) -> Self {
        let round = |&Exchange { pause, request, think, response }: &Exchange| Round {
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
