//! Adaptive video: which quality a player requests, and what it plays when.
//!
//! The player is the abstract one of the literature on adaptive streaming over HTTP: a video is cut
//! into chunks of equal play time, each of which exists in several bitrates. The player requests
//! one chunk after another, chooses the bitrate of each, and stops requesting while its buffer is
//! full. Chunks of one bitrate have the same size.

use std::collections::VecDeque;

use crate::units::{Duration, Rate, Time};

/// Number of chunks whose throughput the rate-based rule averages.
const SAMPLES: usize = 5;

/// A video and its player.
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    /// The bitrates, ascending; at least one.
    pub ladder: Vec<Rate>,
    /// Play time of a chunk.
    pub chunk: Duration,
    /// Largest play time that the player buffers.
    pub buffer: Duration,
    /// Play time in the buffer with which the player starts, and continues after a stall.
    pub startup: Duration,
    /// How the player chooses the bitrate of a chunk.
    pub adaptation: Adaptation,
}

/// How a player chooses the bitrate of the next chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// By the buffer: BBA-0, algorithm 1 of Huang, Johari, McKeown, Trunnell and Watson, "A
    /// Buffer-Based Approach to Rate Adaptation", SIGCOMM 2014. A linear map gives the lowest
    /// bitrate up to `reservoir` and the highest from `reservoir + cushion` on. The bitrate changes
    /// once the map passes the next higher or lower one.
    Buffer {
        /// Buffered play time up to which the lowest bitrate is requested.
        reservoir: Duration,
        /// Buffered play time above the reservoir at which the highest bitrate is requested.
        cushion: Duration,
    },
    /// By the throughput: the highest bitrate that does not exceed the harmonic mean of the
    /// throughputs of the last five chunks (the baseline of Mao, Netravali and Alizadeh, "Neural
    /// Adaptive Video Streaming with Pensieve", SIGCOMM 2017; the harmonic mean is that of Jiang,
    /// Sekar and Zhang, "FESTIVE", CoNEXT 2012).
    Rate,
}

/// What a player has played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Playback {
    /// Play time.
    pub played: Duration,
    /// Time in stalls: the player has started, and its buffer is empty, or not yet filled up to
    /// `startup` again.
    pub stalled: Duration,
    /// Number of stalls that began.
    pub stalls: u64,
    /// Number of chunks received.
    pub chunks: u64,
    /// Number of chunks whose bitrate differs from that of the chunk before.
    pub switches: u64,
    /// Bitrate times play time, bits · 10⁹.
    pub bit_ns: u128,
}

impl Playback {
    /// What was played since `before`.
    pub fn since(self, before: Playback) -> Playback {
        Playback {
            played: self.played.saturating_sub(before.played),
            stalled: self.stalled.saturating_sub(before.stalled),
            stalls: self.stalls - before.stalls,
            chunks: self.chunks - before.chunks,
            switches: self.switches - before.switches,
            bit_ns: self.bit_ns - before.bit_ns,
        }
    }

    /// Mean bitrate of what was played, bit/s; `None` if nothing was.
    pub fn bitrate(&self) -> Option<f64> {
        (self.played > Duration::ZERO).then(|| self.bit_ns as f64 / self.played.0 as f64)
    }

    /// Share of the time since the start of the playback that is spent in stalls; `None` if the
    /// playback has not started.
    pub fn rebuffer_ratio(&self) -> Option<f64> {
        let time = self.played + self.stalled;
        (time > Duration::ZERO).then(|| self.stalled.0 as f64 / time.0 as f64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first chunk is played.
    Starting,
    Playing,
    Stalled,
    /// No chunk follows, and all are played.
    Ended,
}

/// The player of a video.
///
/// # Examples
///
/// A chunk of 4 s that arrives after 1 s is played until 5 s; then the player stalls.
///
/// ```
/// use lasthop_core::traffic::{Adaptation, Player, Video};
/// use lasthop_core::units::{Duration, Rate, Time};
///
/// let video = Video {
///     ladder: vec![Rate(300_000), Rate(1_200_000)],
///     chunk: Duration::secs(4),
///     buffer: Duration::secs(60),
///     startup: Duration::secs(4),
///     adaptation: Adaptation::Rate,
/// };
/// let at = |s| Time::ZERO + Duration::secs(s);
/// let mut player = Player::new(video);
/// assert_eq!(player.request(at(0)), 150_000);
/// assert_eq!(player.received(at(1)), at(1));
/// player.advance(at(7));
/// assert_eq!(player.startup(), Some(Duration::secs(1)));
/// assert_eq!((player.playback().played, player.playback().stalled),
///     (Duration::secs(4), Duration::secs(2)));
/// ```
#[derive(Clone, Debug)]
pub struct Player {
    video: Video,
    state: State,
    /// Time up to which the playback is known.
    now: Time,
    /// Bitrates of the buffered chunks; the first one is being played.
    buffered: VecDeque<Rate>,
    /// Play time of the first chunk that has been played.
    position: Duration,
    /// Index in the ladder of the last chunk that was requested.
    rung: Option<usize>,
    /// When the last chunk was requested, while it is incomplete.
    requested: Option<Time>,
    first_request: Option<Time>,
    startup: Option<Duration>,
    /// Throughputs of the last chunks, bit/s.
    throughputs: VecDeque<f64>,
    /// The player requests no more chunks.
    is_last: bool,
    playback: Playback,
}

impl Player {
    /// A player that has requested nothing.
    pub fn new(video: Video) -> Player {
        Player {
            video,
            state: State::Starting,
            now: Time::ZERO,
            buffered: VecDeque::new(),
            position: Duration::ZERO,
            rung: None,
            requested: None,
            first_request: None,
            startup: None,
            throughputs: VecDeque::new(),
            is_last: false,
            playback: Playback::default(),
        }
    }

    /// What has been played up to the last call of [`Self::advance`].
    pub fn playback(&self) -> Playback {
        self.playback
    }

    /// Time from the first request to the first picture; `None` before that.
    pub fn startup(&self) -> Option<Duration> {
        self.startup
    }

    /// Play time in the buffer.
    pub fn level(&self) -> Duration {
        (self.video.chunk * self.buffered.len() as u64).saturating_sub(self.position)
    }

    /// Plays up to `now`.
    pub fn advance(&mut self, now: Time) {
        let mut left = now - self.now;
        self.now = now;
        while self.state == State::Playing && left > Duration::ZERO {
            let Some(&rate) = self.buffered.front() else {
                let is_over = self.is_last && self.requested.is_none();
                self.state = if is_over { State::Ended } else { State::Stalled };
                self.playback.stalls += u64::from(!is_over);
                break;
            };
            let part = left.min(self.video.chunk.saturating_sub(self.position));
            self.playback.played = self.playback.played + part;
            self.playback.bit_ns += u128::from(rate.0) * u128::from(part.0);
            left = left.saturating_sub(part);
            self.position = self.position + part;
            if self.position == self.video.chunk {
                self.buffered.pop_front();
                self.position = Duration::ZERO;
            }
        }
        if self.state == State::Stalled {
            self.playback.stalled = self.playback.stalled + left;
        }
    }

    /// Requests the next chunk. Returns its size in bytes.
    pub fn request(&mut self, now: Time) -> u64 {
        self.advance(now);
        let rung = self.choose();
        self.playback.switches += u64::from(self.rung.is_some_and(|before| before != rung));
        self.rung = Some(rung);
        self.requested = Some(now);
        self.first_request.get_or_insert(now);
        let bits = u128::from(self.video.ladder[rung].0) * u128::from(self.video.chunk.0);
        ((bits / 8_000_000_000) as u64).max(1)
    }

    /// The chunk that was requested is complete. Returns when the player requests the next one.
    pub fn received(&mut self, now: Time) -> Time {
        self.advance(now);
        let (Some(rung), Some(requested)) = (self.rung, self.requested.take()) else { return now };
        let rate = self.video.ladder[rung];
        let bits = rate.0 as f64 * self.video.chunk.as_secs();
        self.throughputs.push_back(bits / (now - requested).as_secs().max(1e-9));
        if self.throughputs.len() > SAMPLES {
            self.throughputs.pop_front();
        }
        self.buffered.push_back(rate);
        self.playback.chunks += 1;
        let excess = (self.level() + self.video.chunk).saturating_sub(self.video.buffer);
        let waits = matches!(self.state, State::Starting | State::Stalled);
        // A full buffer starts the player too: otherwise it would wait for a chunk that it does not
        // request.
        if waits && (self.level() >= self.video.startup || excess > Duration::ZERO) {
            self.play();
        }
        now + excess
    }

    /// The player requests no more chunks; it plays what it has received and what is on its way.
    pub fn finish(&mut self, now: Time) {
        self.advance(now);
        self.is_last = true;
        let waits = matches!(self.state, State::Starting | State::Stalled);
        if waits && self.requested.is_none() {
            if self.buffered.is_empty() {
                self.state = State::Ended;
            } else {
                self.play();
            }
        }
    }

    /// The playback starts or continues.
    fn play(&mut self) {
        self.state = State::Playing;
        let first = self.first_request.unwrap_or(self.now);
        self.startup.get_or_insert(self.now - first);
    }

    /// Index in the ladder of the next chunk.
    fn choose(&self) -> usize {
        let Some(before) = self.rung else { return 0 };
        let ladder = &self.video.ladder;
        match self.video.adaptation {
            Adaptation::Buffer { reservoir, cushion } => self.by_buffer(before, reservoir, cushion),
            Adaptation::Rate => {
                let slowness: f64 = self.throughputs.iter().map(|t| 1.0 / t).sum();
                let estimate = self.throughputs.len() as f64 / slowness;
                ladder.iter().rposition(|r| r.0 as f64 <= estimate).unwrap_or(0)
            }
        }
    }

    fn by_buffer(&self, before: usize, reservoir: Duration, cushion: Duration) -> usize {
        let (ladder, level) = (&self.video.ladder, self.level());
        let top = ladder.len() - 1;
        if level <= reservoir {
            return 0;
        }
        if level >= reservoir + cushion {
            return top;
        }
        let [lowest, highest] = [ladder[0].0 as f64, ladder[top].0 as f64];
        let share = level.saturating_sub(reservoir).as_secs() / cushion.as_secs();
        let wanted = lowest + (highest - lowest) * share;
        let rate = |rung: usize| ladder[rung].0 as f64;
        if wanted >= rate((before + 1).min(top)) {
            ladder.iter().rposition(|r| (r.0 as f64) < wanted).unwrap_or(0)
        } else if wanted <= rate(before.saturating_sub(1)) {
            ladder.iter().position(|r| r.0 as f64 > wanted).unwrap_or(top)
        } else {
            before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KBIT: u64 = 1000;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    fn video(adaptation: Adaptation) -> Video {
        Video {
            ladder: [300, 750, 1200, 1850, 2850, 4300].map(|r| Rate(r * KBIT)).to_vec(),
            chunk: Duration::secs(4),
            buffer: Duration::secs(20),
            startup: Duration::secs(4),
            adaptation,
        }
    }

    fn by_buffer() -> Adaptation {
        Adaptation::Buffer { reservoir: Duration::secs(5), cushion: Duration::secs(10) }
    }

    /// Downloads at a constant rate for `seconds`. Returns the player and the bitrates.
    fn download(video: Video, rate: u64, seconds: u64) -> (Player, Vec<u64>) {
        let mut player = Player::new(video);
        let (mut now, mut bitrates) = (Time::ZERO, Vec::new());
        while now < at(seconds * 1000) {
            let bytes = player.request(now);
            bitrates.push(bytes * 8 / 4);
            now = player.received(now + Duration(bytes * 8 * 1_000_000_000 / rate));
        }
        player.advance(now.min(at(seconds * 1000)).max(player.now));
        (player, bitrates)
    }

    #[test]
    fn the_rate_rule_takes_the_highest_bitrate_below_the_throughput() {
        let (player, bitrates) = download(video(Adaptation::Rate), 2_000 * KBIT, 60);
        assert_eq!(bitrates[0], 300 * KBIT);
        assert!(bitrates[1..].iter().all(|r| *r == 1850 * KBIT), "{bitrates:?}");
        assert_eq!((player.playback().stalls, player.playback().switches), (0, 1));
    }

    /// The harmonic mean of 1, 1 and 4 Mbit/s is 4/3 Mbit/s; their mean is 2 Mbit/s.
    #[test]
    fn one_fast_chunk_does_not_raise_the_estimate() {
        let mut player = Player::new(video(Adaptation::Rate));
        player.throughputs = [1e6, 1e6, 4e6].into();
        player.rung = Some(1);
        assert_eq!(player.choose(), 2);
    }

    /// The points of the map: 300 kbit/s up to 5 s, 4300 kbit/s from 15 s on, 2300 kbit/s at 10 s.
    #[test]
    fn the_buffer_rule_follows_the_map() {
        let choice = |seconds: u64, before: usize| {
            let mut player = Player::new(Video { chunk: Duration::secs(1), ..video(by_buffer()) });
            player.buffered = vec![Rate(1); seconds as usize].into();
            player.rung = Some(before);
            player.choose()
        };
        assert_eq!([choice(5, 4), choice(15, 0), choice(20, 0)], [0, 5, 5]);
        assert_eq!([choice(10, 0), choice(10, 2), choice(10, 5)], [3, 3, 4]);
        // The map is between the neighbours of 1850 kbit/s: no change.
        assert_eq!(choice(10, 3), 3);
        assert_eq!(choice(11, 3), 3);
    }

    #[test]
    fn the_buffer_stays_within_its_limit() {
        let (player, bitrates) = download(video(by_buffer()), 50_000 * KBIT, 100);
        assert_eq!(bitrates.last(), Some(&(4300 * KBIT)));
        assert!(player.level() <= Duration::secs(20), "{}", player.level());
        // The buffer is never empty: all time after the start is played.
        let startup = player.startup().unwrap();
        assert_eq!(player.playback().played + startup, player.now - Time::ZERO);
    }

    #[test]
    fn a_slow_link_stalls_the_player() {
        let (player, bitrates) = download(video(by_buffer()), 200 * KBIT, 600);
        assert!(bitrates.iter().all(|r| *r == 300 * KBIT));
        // Each chunk of 4 s takes 6 s.
        let ratio = player.playback().rebuffer_ratio().unwrap();
        assert!((ratio - 1.0 / 3.0).abs() < 0.01, "{ratio}");
        assert_eq!(player.playback().bitrate(), Some(300e3));
        assert!(player.playback().stalls >= 98, "{:?}", player.playback());
        let time = player.playback().played + player.playback().stalled;
        assert_eq!(time + player.startup().unwrap(), player.now - Time::ZERO);
    }

    /// A start-up buffer that the full buffer cannot reach.
    #[test]
    fn a_full_buffer_starts_the_player() {
        let (buffer, startup) = (Duration::secs(10), Duration::secs(10));
        let video = Video { buffer, startup, ..video(Adaptation::Rate) };
        let (player, _) = download(video, 10_000 * KBIT, 60);
        assert!(player.playback().played > Duration::secs(50));
    }

    /// After a stall the last chunk is less than the start-up buffer, but no other follows.
    #[test]
    fn the_last_chunk_is_played() {
        let mut player =
            Player::new(Video { startup: Duration::secs(8), ..video(Adaptation::Rate) });
        for (request, received) in [(0, 1000), (1000, 2000), (2000, 20_000)] {
            player.request(at(request));
            player.received(at(received));
        }
        player.finish(at(20_000));
        player.advance(at(40_000));
        let playback = player.playback();
        assert_eq!((playback.played, playback.stalled), (Duration::secs(12), Duration::secs(10)));
        // A video that has not started when the user leaves has no stall.
        let mut player = Player::new(video(Adaptation::Rate));
        player.finish(at(5));
        player.advance(at(40_000));
        assert_eq!(player.playback(), Playback::default());
    }

    #[test]
    fn the_end_of_the_video_is_no_stall() {
        let mut player = Player::new(video(Adaptation::Rate));
        player.request(at(0));
        player.received(at(1000));
        player.finish(at(1000));
        player.advance(at(10_000));
        let playback = player.playback();
        assert_eq!((playback.played, playback.stalls), (Duration::secs(4), 0));
        assert_eq!(playback.stalled, Duration::ZERO);
        let before = Playback { played: Duration::secs(1), ..Playback::default() };
        assert_eq!(playback.since(before).played, Duration::secs(3));
    }
}
