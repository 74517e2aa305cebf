//! quinn-proto: QUIC with TLS 1.3, both ends whole.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use lasthop_testbed::{Datagram, Ecn, Endpoint};
use quinn_proto as quic;
use quinn_proto::{ClientConfig, ServerConfig, TransportConfig};

/// What an application does with its connection, each time after the connection was called.
pub trait App {
    /// Reads and writes streams.
    fn poll(&mut self, connection: &mut quic::Connection, now: Duration);
}

/// Opens one stream and writes this number of bytes; the server of a download.
#[derive(Clone, Debug)]
pub struct Upload {
    left: usize,
    stream: Option<quic::StreamId>,
}

impl App for Upload {
    fn poll(&mut self, connection: &mut quic::Connection, _now: Duration) {
        if connection.is_handshaking() || self.left == 0 {
            return;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().open(quic::Dir::Uni);
        }
        let Some(id) = self.stream else { return };
        let mut stream = connection.send_stream(id);
        while self.left > 0 {
            let chunk = [0; 16_384];
            match stream.write(&chunk[..self.left.min(chunk.len())]) {
                Ok(written) => self.left -= written,
                Err(_) => return, // blocked by a window
            }
        }
        // The stream is open: it was not finished or reset before.
        let _ = stream.finish();
    }
}

/// Reads one stream to its end.
#[derive(Clone, Debug, Default)]
pub struct Download {
    received: u64,
    stream: Option<quic::StreamId>,
    finished_at: Option<Duration>,
}

impl App for Download {
    fn poll(&mut self, connection: &mut quic::Connection, now: Duration) {
        if self.stream.is_none() {
            self.stream = connection.streams().accept(quic::Dir::Uni);
        }
        let Some(id) = self.stream.filter(|_| self.finished_at.is_none()) else { return };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.received += chunk.bytes.len() as u64,
                Ok(None) => {
                    self.finished_at = Some(now);
                    break;
                }
                Err(_) => break, // no more for now
            }
        }
        // Whether that changes the windows, `poll_transmit` finds out.
        let _ = chunks.finalize();
    }
}

/// One end of a QUIC connection.
pub struct End<A> {
    endpoint: quic::Endpoint,
    connection: Option<(quic::ConnectionHandle, quic::Connection)>,
    /// What a client connects with, until it does.
    connect: Option<ClientConfig>,
    /// Address of the other end.
    peer: SocketAddr,
    /// Stands for the start of the run: quinn only looks at differences.
    epoch: Instant,
    /// Packets that the endpoint sends beside the connection.
    responses: Vec<Vec<u8>>,
    /// The application.
    pub app: A,
}

/// Address of the server.
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);
/// Address of the client.
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 5000);

impl<A: App> End<A> {
    /// A server, whose random numbers (connection IDs, packet number skips) derive from `seed`.
    pub fn server(config: ServerConfig, seed: u8, app: A) -> End<A> {
        End::new(Some(config), None, seed, app)
    }

    /// A client, which connects to the server `localhost` when its flow starts.
    pub fn client(config: ClientConfig, seed: u8, app: A) -> End<A> {
        End::new(None, Some(config), seed, app)
    }

    fn new(
        server: Option<ServerConfig>,
        connect: Option<ClientConfig>,
        seed: u8,
        app: A,
    ) -> End<A> {
        let config = Arc::new(quic::EndpointConfig::default());
        let peer = if server.is_some() { CLIENT } else { SERVER };
        let endpoint = quic::Endpoint::new(config, server.map(Arc::new), true, Some([seed; 32]));
        let (epoch, responses) = (Instant::now(), Vec::new());
        End { endpoint, connection: None, connect, peer, epoch, responses, app }
    }

    /// The connection, once it has begun.
    pub fn connection(&self) -> Option<&quic::Connection> {
        self.connection.as_ref().map(|(_, connection)| connection)
    }

    /// Exchanges events between connection and endpoint, and lets the application act.
    fn drive(&mut self, now: Duration) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        self.app.poll(connection, now);
        while connection.poll().is_some() {}
    }

    /// The server accepts a connection.
    fn accept(&mut self, incoming: quic::Incoming, now: Instant) {
        let mut buffer = Vec::new();
        match self.endpoint.accept(incoming, now, &mut buffer, None) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.responses.extend(error.response.map(|_| buffer)),
        }
    }
}

impl<A: App> Endpoint for End<A> {
    fn handle(&mut self, datagram: Datagram, now: Duration) {
        let ecn = quic::EcnCodepoint::from_bits(datagram.ecn as u8);
        let (bytes, at) = (BytesMut::from(&datagram.bytes[..]), self.epoch + now);
        let mut buffer = Vec::new();
        match self.endpoint.handle(at, self.peer, None, ecn, bytes, &mut buffer) {
            Some(quic::DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(quic::DatagramEvent::NewConnection(incoming)) => self.accept(incoming, at),
            Some(quic::DatagramEvent::Response(_)) => self.responses.push(buffer),
            None => {}
        }
        self.drive(now);
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<Datagram> {
        let at = self.epoch + now;
        if let Some(config) = self.connect.take() {
            // The address is valid, and a new endpoint has connection IDs left.
            self.connection = self.endpoint.connect(at, config, SERVER, "localhost").ok();
        }
        if let Some(bytes) = self.responses.pop() {
            return Some(Datagram::new(bytes));
        }
        let (_, connection) = self.connection.as_mut()?;
        let mut bytes = Vec::with_capacity(1500);
        let transmit = connection.poll_transmit(at, 1, &mut bytes);
        self.drive(now);
        let ecn = match transmit?.ecn {
            None => Ecn::NotEct,
            Some(quic::EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(quic::EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(quic::EcnCodepoint::Ce) => Ecn::Ce,
        };
        Some(Datagram { bytes, ecn })
    }

    fn next_timeout(&mut self) -> Option<Duration> {
        let at = self.connection.as_mut()?.1.poll_timeout()?;
        Some(at.saturating_duration_since(self.epoch))
    }

    fn handle_timeout(&mut self, now: Duration) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(self.epoch + now);
        }
        self.drive(now);
    }
}

impl End<Download> {
    /// Bytes that the application has read.
    pub fn received(&self) -> u64 {
        self.app.received
    }

    /// When it had read everything, since the start of the run.
    pub fn finished_at(&self) -> Option<Duration> {
        self.app.finished_at
    }
}

/// The two ends of a download of this number of bytes. `transport` applies to both.
///
/// Same bytes in each run: the keys are Ed25519, whose signatures have one length.
///
/// # Panics
///
/// If ring cannot make a key, which needs the random numbers of the operating system.
pub fn download(bytes: usize, transport: TransportConfig) -> (End<Upload>, End<Download>) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let mut certificate = rcgen::CertificateParams::new(["localhost".into()]).expect("a name");
    certificate.serial_number = Some(1_u64.into());
    let certificate = certificate.self_signed(&key).expect("a signature").der().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into())
        .expect("a key that fits the certificate");
    server.transport_config(transport.clone());
    let mut client =
        ClientConfig::with_root_certificates(Arc::new(roots)).expect("a root certificate");
    client.transport_config(transport);
    let upload = Upload { left: bytes, stream: None };
    (End::server(server, 1, upload), End::client(client, 2, Download::default()))
}
