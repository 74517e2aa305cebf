// Bulk flows over two links in htsim (csg-htsim), for comparison of CPU time.
//
//   htsim T wired_Mbps hop_Mbps window queue flows loss
//
// Segments of 1000 bytes, 20 ms per link and direction, windows and queues in segments. Nothing is
// logged. Prints how many segments the receivers have acknowledged after T seconds.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

namespace {

constexpr int SEGMENT = 1000;

// Loss behind the link: a lost packet has used its air time.
class Air : public PacketSink {
public:
    explicit Air(double loss) : loss_(loss) {}
    void receivePacket(Packet& packet) override {
        if (drand48() < loss_) {
            packet.free();
        } else {
            packet.sendOn();
        }
    }
    const std::string& nodename() override { return name_; }

private:
    double loss_;
    std::string name_ = "air";
};

}  // namespace

int main(int count, char** words) {
    if (count != 8) {
        std::fprintf(stderr, "usage: htsim T wired_Mbps hop_Mbps window queue flows loss\n");
        return 2;
    }
    const double seconds = std::atof(words[1]);
    const linkspeed_bps wired = speedFromMbps(std::atof(words[2]));
    const linkspeed_bps hop = speedFromMbps(std::atof(words[3]));
    const int window = std::atoi(words[4]), waiting = std::atoi(words[5]);
    const int flows = std::atoi(words[6]);
    const double loss = std::atof(words[7]);

    EventList events;
    events.setEndtime(timeFromSec(seconds));
    Packet::set_packet_size(SEGMENT);
    const mem_b unlimited = mem_b(100000) * SEGMENT;
    Queue to_base(wired, unlimited, events, nullptr), from_base(wired, unlimited, events, nullptr);
    Queue down(hop, mem_b(waiting) * SEGMENT, events, nullptr);
    Queue up(hop, unlimited, events, nullptr);
    Pipe far(timeFromMs(20), events), radio(timeFromMs(20), events);
    Pipe radio_back(timeFromMs(20), events), far_back(timeFromMs(20), events);
    Air air(loss);
    TcpRtxTimerScanner timers(timeFromMs(10), events);

    std::vector<std::unique_ptr<TcpSrc>> senders;
    std::vector<std::unique_ptr<TcpSink>> receivers;
    std::vector<std::unique_ptr<Route>> routes;
    for (int i = 0; i < flows; ++i) {
        senders.push_back(std::make_unique<TcpSrc>(nullptr, nullptr, events));
        receivers.push_back(std::make_unique<TcpSink>());
        senders.back()->_maxcwnd = window * SEGMENT;
        senders.back()->set_ssthresh(window * SEGMENT);
        auto out = std::make_unique<Route>(), back = std::make_unique<Route>();
        using Hops = std::initializer_list<PacketSink*>;
        for (PacketSink* hop_of : Hops{&to_base, &far, &down, &radio}) {
            out->push_back(hop_of);
        }
        if (loss > 0) {
            out->push_back(&air);
        }
        out->push_back(receivers.back().get());
        for (PacketSink* hop_of : Hops{&up, &radio_back, &from_base, &far_back}) {
            back->push_back(hop_of);
        }
        back->push_back(senders.back().get());
        senders.back()->connect(*out, *back, *receivers.back(), timeFromMs(10 * i));
        timers.registerTcp(*senders.back());
        routes.push_back(std::move(out));
        routes.push_back(std::move(back));
    }
    while (events.doNextEvent()) {}
    unsigned long long acked = 0;
    for (const auto& receiver : receivers) {
        acked += receiver->_cumulative_ack / SEGMENT;
    }
    std::printf("acked %llu\n", acked);
    // The destructors of htsim are not needed, and some of them expect a logfile.
    std::fflush(stdout);
    std::_Exit(0);
}
