//! Clients at the receiver of a flow: each requests data, and the sender of the flow answers.

use super::operation::Do;
use super::sizes::Sizes;
use super::video::{Player, Video};
use crate::random::Stream;
use crate::units::{Duration, Time};

/// Time after which a client repeats a request, doubled for each further repetition (the initial
/// retransmission timeout of RFC 6298, section 2).
const REPEAT_AFTER: Duration = Duration::secs(1);
/// Longest time between two repetitions (RFC 6298, section 2.5).
const LONGEST_WAIT: Duration = Duration::secs(60);

/// What a client requests.
#[derive(Clone, Debug)]
enum Wanted {
    /// Responses of these sizes; think times between the end of one and the next request.
    Responses { sizes: Sizes, size_draws: Stream, mean_think: Duration, think_draws: Stream },
    /// The chunks of a video.
    Chunks(Box<Player>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No request is open.
    Idle,
    /// A request is open that was sent this number of times.
    Open(u32),
}

/// A client with at most one open request.
#[derive(Clone, Debug)]
pub(super) struct Client {
    wanted: Wanted,
    /// Payload of a request, bytes.
    request: u32,
    state: State,
    /// Number of requests so far, which is the ordinal of the last one.
    requests: u64,
    /// Ordinal of the last request that the server has answered.
    answered: u64,
    /// When the last request was first sent.
    requested_at: Time,
    /// Size of the response to the last request, bytes.
    size: u64,
    /// Bytes of all responses before that.
    before: u64,
    /// Bytes that have arrived.
    arrived: u64,
}

impl Client {
    /// A client of responses; `name` and `seed` select the random streams.
    pub(super) fn for_responses(
        (sizes, mean_think): (&Sizes, Duration),
        request: u32,
        seed: u64,
        name: &str,
    ) -> Client {
        let size_draws = Stream::new(seed, &format!("sizes {name}"));
        let think_draws = Stream::new(seed, &format!("think times {name}"));
        let sizes = sizes.clone();
        let wanted = Wanted::Responses { sizes, size_draws, mean_think, think_draws };
        Client::new(wanted, request)
    }

    /// The player of a video.
    pub(super) fn for_video(video: &Video, request: u32) -> Client {
        Client::new(Wanted::Chunks(Box::new(Player::new(video.clone()))), request)
    }

    fn new(wanted: Wanted, request: u32) -> Client {
        Client {
            wanted,
            request,
            state: State::Idle,
            requests: 0,
            answered: 0,
            requested_at: Time::ZERO,
            size: 0,
            before: 0,
            arrived: 0,
        }
    }

    /// The player of a video.
    pub(super) fn player(&self) -> Option<&Player> {
        match &self.wanted {
            Wanted::Chunks(player) => Some(player),
            Wanted::Responses { .. } => None,
        }
    }

    /// The next request is due, or the last one may have to be repeated.
    pub(super) fn fire(&mut self, now: Time, stop: Time) -> (Option<Do>, Option<Time>) {
        let sent = match self.state {
            State::Idle if now >= stop => {
                self.finish(now);
                return (None, None);
            }
            State::Idle => {
                self.requests += 1;
                self.requested_at = now;
                self.before += self.size;
                self.size = match &mut self.wanted {
                    Wanted::Responses { sizes, size_draws, .. } => {
                        sizes.draw(*size_draws, self.requests)
                    }
                    Wanted::Chunks(player) => player.request(now),
                };
                1
            }
            // The response has begun, so the server has the request.
            State::Open(_) if self.arrived > self.before => return (None, None),
            State::Open(sent) => sent + 1,
        };
        self.state = State::Open(sent);
        let wait = (REPEAT_AFTER * (1u64 << (sent - 1).min(10))).min(LONGEST_WAIT);
        let request = Do::Request { ordinal: self.requests, bytes: self.request, times: sent };
        (Some(request), Some(now + wait))
    }

    /// The number of bytes that have arrived at the client.
    pub(super) fn set_arrived(&mut self, bytes: u64) {
        self.arrived = bytes;
    }

    /// A request reaches the server. Returns the size of the response, unless it has been answered
    /// before.
    pub(super) fn request_arrived(&mut self, ordinal: u64) -> Option<u64> {
        let is_new = ordinal == self.requests && self.answered < ordinal;
        is_new.then(|| {
            self.answered = ordinal;
            self.size
        })
    }

    /// Time from the first sending of the open request until `now`.
    pub(super) fn response_time(&self, now: Time) -> Duration {
        now - self.requested_at
    }

    /// The response is complete. Returns the time of the next request; `None` if there is none
    /// before `stop`.
    pub(super) fn received(&mut self, now: Time, stop: Time) -> Option<Time> {
        self.state = State::Idle;
        let at = match &mut self.wanted {
            Wanted::Responses { mean_think, think_draws, .. } => {
                let think = think_draws.exponential(self.requests, mean_think.as_secs());
                now + Duration::from_secs_f64(think)
            }
            Wanted::Chunks(player) => player.received(now),
        };
        if at >= stop {
            self.finish(now);
        }
        (at < stop).then_some(at)
    }

    fn finish(&mut self, now: Time) {
        if let Wanted::Chunks(player) = &mut self.wanted {
            player.finish(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    fn client() -> Client {
        Client::for_responses((&Sizes::Constant(5000), Duration::ZERO), 200, 1, "x")
    }

    fn request(ordinal: u64, times: u32) -> Option<Do> {
        Some(Do::Request { ordinal, bytes: 200, times })
    }

    #[test]
    fn requests_alternate_with_responses() {
        let mut client = client();
        assert_eq!(client.fire(at(0), Time::NEVER), (request(1, 1), Some(at(1000))));
        assert_eq!(client.request_arrived(1), Some(5000));
        assert_eq!(client.response_time(at(80)), Duration::millis(80));
        client.set_arrived(5000);
        assert_eq!(client.received(at(80), Time::NEVER), Some(at(80)));
        assert_eq!(client.fire(at(80), Time::NEVER).0, request(2, 1));
        assert_eq!(client.request_arrived(2), Some(5000));
    }

    #[test]
    fn a_lost_request_is_repeated_and_answered_once() {
        let mut client = client();
        client.fire(at(0), Time::NEVER);
        assert_eq!(client.fire(at(1000), Time::NEVER), (request(1, 2), Some(at(3000))));
        assert_eq!(client.fire(at(3000), Time::NEVER), (request(1, 3), Some(at(7000))));
        assert_eq!(client.request_arrived(1), Some(5000));
        assert_eq!(client.request_arrived(1), None);
        // Part of the response: no repetition.
        client.set_arrived(1);
        assert_eq!(client.fire(at(7000), Time::NEVER), (None, None));
    }

    /// The time between two repetitions does not exceed a minute.
    #[test]
    fn repetitions_go_on() {
        let mut client = client();
        let mut now = at(0);
        for times in 1..40 {
            let (sent, next) = client.fire(now, Time::NEVER);
            assert_eq!(sent, request(1, times));
            assert!(next.unwrap() - now <= LONGEST_WAIT);
            now = next.unwrap();
        }
    }

    #[test]
    fn no_request_after_the_stop() {
        let mut client = client();
        client.fire(at(0), at(500));
        assert_eq!(client.request_arrived(1), Some(5000));
        assert_eq!(client.received(at(600), at(500)), None);
        assert_eq!(client.fire(at(600), at(500)), (None, None));
    }
}
