// The window rules of ns3_rules.cc: those of ns-3 with rules replaced, and what their socket tells
// them. Part of that file, which has the switches.

//! What every window rule of ns-3 is told by its socket.
template <class Base>
class Told : public Base
{
  public:
    // Asked at the beginning of a recovery, after the state has been set, and at a timeout, before.
    uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t pipe) override
    {
        bool timeout = !m_begins;
        m_begins = false;
        uint32_t flight = Flight(s);
        if (g_trace)
        {
            const char* what = timeout ? "timeout" : "recovery";
            printf("%.6f %s pipe %u flight %u\n", Clock(), what, pipe, flight);
        }
        // Without what limited transmit has sent (RFC 5681, section 3.2, step 1): whole segments.
        uint32_t atLoss = std::min(flight, s->m_cWnd.Get() / SEGMENT * SEGMENT);
        uint32_t of = timeout ? (g_flight ? flight : pipe) : (g_flightAtLoss ? atLoss : pipe);
        return Base::GetSsThresh(s, of);
    }

    void CongestionStateSet(Ptr<TcpSocketState> s,
                            const TcpSocketState::TcpCongState_t next) override
    {
        m_begins = next == TcpSocketState::CA_RECOVERY;
        m_ends = s->m_congState == TcpSocketState::CA_LOSS && next == TcpSocketState::CA_OPEN;
        m_endsFast =
            s->m_congState == TcpSocketState::CA_RECOVERY && next == TcpSocketState::CA_OPEN;
        Base::CongestionStateSet(s, next);
    }

    void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        segments = g_fresh ? Fresh() : segments;
        if (OpensNothing(s))
        {
            return;
        }
        Base::IncreaseWindow(s, m_ends && g_exitAck ? std::max(segments, 1U) : segments);
        m_ends = false;
    }

    void PktsAcked(Ptr<TcpSocketState> s, uint32_t segments, const Time& smoothed) override
    {
        Base::PktsAcked(s, g_fresh ? Fresh() : segments, RoundTrip(s, smoothed));
    }

  protected:
    bool m_begins = false;

    //! What is told; 0 for none.
    Time RoundTrip(Ptr<TcpSocketState> s, const Time& smoothed)
    {
        Time last = g_samples ? s->m_lastRtt.Get() : smoothed;
        return g_sacked ? g_newest : last;
    }

    //! The ACK in progress ends a fast recovery, or the receive window limits the sender.
    bool OpensNothing(Ptr<TcpSocketState> s)
    {
        bool ends = std::exchange(m_endsFast, false);
        return (ends && g_exitFast) || (g_receiver && s->m_cWnd >= g_socket->m_rWnd);
    }

  private:
    bool m_ends = false;
    bool m_endsFast = false;
};

//! Opens cwnd by a part of a segment with each ACK.
class Parts
{
  public:
    void Open(Ptr<TcpSocketState> s)
    {
        double bytes = 1.0 * SEGMENT * SEGMENT / s->m_cWnd.Get();
        m_rest = g_fractions ? m_rest + bytes - std::floor(bytes) : 0;
        uint32_t carried = m_rest >= 1;
        m_rest -= carried;
        s->m_cWnd += std::max(1U, uint32_t(bytes) + carried);
    }

  private:
    //! Of a byte.
    double m_rest = 0;
};

//! A rule that has NewReno's congestion avoidance.
template <class Base>
class InFractions : public Base
{
  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        if (!g_fractions)
        {
            Base::CongestionAvoidance(s, segments);
        }
        else if (segments > 0)
        {
            m_parts.Open(s);
        }
    }

  private:
    Parts m_parts;
};

class NewReno : public Told<InFractions<TcpNewReno>>
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<NewReno>(this);
    }
};

class RenoInParts : public TcpLinuxReno
{
  public:
    void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        if (!g_parts || s->m_cWnd < s->m_ssThresh)
        {
            TcpLinuxReno::IncreaseWindow(s, segments);
        }
        else if (segments > 0)
        {
            m_parts.Open(s);
        }
    }

  private:
    Parts m_parts;
};

class LinuxReno : public Told<RenoInParts>
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<LinuxReno>(this);
    }
};

class VenoThatHalves : public InFractions<TcpVeno>
{
  public:
    uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t of) override
    {
        uint32_t share = TcpVeno::GetSsThresh(s, of);
        return g_few && m_few ? std::max(2 * s->m_segmentSize, std::min(share, of / 2)) : share;
    }

  protected:
    bool m_few = true;
};

class Veno : public Told<VenoThatHalves>
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Veno>(this);
    }

    void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        Time least = m_minRtt;
        uint32_t samples = m_cntRtt;
        Told<VenoThatHalves>::IncreaseWindow(s, segments);
        if (!g_rounds)
        {
            return;
        }
        if (s->m_lastAckedSeq < m_end)
        {
            m_minRtt = least;
            m_cntRtt = samples;
        }
        else
        {
            m_few = samples < 3;
            m_end = s->m_highTxMark.Get();
        }
    }

  private:
    SequenceNumber32 m_end{0};
};

class VegasThatHalves : public TcpVegas
{
  public:
    uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t of) override
    {
        return g_half ? std::max(2 * s->m_segmentSize, of / 2) : TcpVegas::GetSsThresh(s, of);
    }
};

class Vegas : public Told<VegasThatHalves>
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Vegas>(this);
    }

    void CongestionStateSet(Ptr<TcpSocketState> s,
                            const TcpSocketState::TcpCongState_t next) override
    {
        Told<VegasThatHalves>::CongestionStateSet(s, next);
        EndAbove();
    }

    void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        Told<VegasThatHalves>::IncreaseWindow(s, segments);
        EndAbove();
    }

  private:
    SequenceNumber32 m_end{0};

    void EndAbove()
    {
        if (g_above && m_begSndNxt != m_end)
        {
            m_end = m_begSndNxt + 1;
            m_begSndNxt = m_end;
        }
    }
};

class WestwoodPlus : public Told<InFractions<TcpWestwoodPlus>>
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<WestwoodPlus>(this);
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t pipe) override
    {
        uint32_t theirs = Told<InFractions<TcpWestwoodPlus>>::GetSsThresh(s, pipe);
        double bytes = m_currentBW.Get().GetBitRate() * m_least.GetSeconds() / 8;
        return g_dataRtt ? std::max(2 * SEGMENT, uint32_t(bytes)) : theirs;
    }

    // With g_interval each segment counts once.
    void PktsAcked(Ptr<TcpSocketState> s, uint32_t segments, const Time& smoothed) override
    {
        Time told = RoundTrip(s, smoothed);
        if (!told.IsZero())
        {
            m_last = told;
            m_least = m_least.IsZero() ? told : std::min(m_least, told);
        }
        if (!g_interval)
        {
            Told<InFractions<TcpWestwoodPlus>>::PktsAcked(s, segments, smoothed);
            return;
        }
        Time round = std::max(m_last, MilliSeconds(50));
        Time took = Simulator::Now() - m_since;
        if (m_since.IsZero() || took >= round)
        {
            Sample(8 * (Delivered() - m_delivered) / took.GetSeconds());
            m_delivered = Delivered();
            m_since = Simulator::Now();
        }
    }

  private:
    void Sample(double rate)
    {
        if (!m_since.IsZero())
        {
            double before = m_filtered == 0 ? rate : m_filtered;
            double last = m_filtered == 0 ? rate : m_lastRate;
            m_filtered = 0.9 * before + 0.05 * (rate + last);
            m_lastRate = rate;
            m_currentBW = DataRate(uint64_t(m_filtered));
        }
    }

    //! Round-trip times: the last, the smallest.
    Time m_last, m_least;
    Time m_since;
    uint64_t m_delivered = 0;
    double m_filtered = 0;
    double m_lastRate = 0;
};

class Cubic : public Told<TcpCubic>
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Cubic>(this);
    }

    void IncreaseWindow(Ptr<TcpSocketState> s, uint32_t segments) override
    {
        if (g_curve && s->m_cWnd >= s->m_ssThresh)
        {
            if (OpensNothing(s))
            {
                return;
            }
            double cwnd = double(s->m_cWnd) / SEGMENT;
            double smoothed = s->m_srtt.Get().GetSeconds();
            s->m_cWnd = uint32_t(SEGMENT * Avoid(cwnd, g_fresh ? Fresh() : segments, smoothed));
        }
        else
        {
            Told<TcpCubic>::IncreaseWindow(s, segments);
        }
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> s, uint32_t pipe) override
    {
        double cwnd = double(s->m_cWnd) / SEGMENT;
        m_most = cwnd < m_most ? cwnd * (1 + BETA) / 2 : cwnd;
        m_prior = cwnd;
        m_start = -1;
        // After a timeout the curve begins at its plateau (section 4.8).
        m_plateau = !m_begins;
        uint32_t theirs = Told<TcpCubic>::GetSsThresh(s, pipe);
        return g_curve ? std::max(2 * SEGMENT, uint32_t(BETA * s->m_cWnd)) : theirs;
    }

  private:
    static constexpr double BETA = 0.7;
    static constexpr double C = 0.4;

    //! Congestion avoidance (RFC 9438, sections 4.2 to 4.5), in segments.
    double Avoid(double cwnd, double acked, double smoothed)
    {
        if (m_start < 0)
        {
            if (m_plateau)
            {
                m_most = cwnd;
                m_prior = std::max(m_prior, cwnd);
            }
            m_plateau = false;
            m_start = Clock();
            m_k = std::cbrt(std::max(m_most - cwnd, 0.0) / C);
            m_top = std::max(m_most, cwnd);
            m_reno = cwnd;
        }
        auto curve = [this](double t) { return C * std::pow(t - m_k, 3) + m_top; };
        double t = Clock() - m_start;
        double target = std::clamp(curve(t + smoothed), cwnd, 1.5 * cwnd);
        m_reno += (m_reno >= m_prior ? 1 : 3 * (1 - BETA) / (1 + BETA)) * acked / cwnd;
        bool friendly = curve(t) < m_reno;
        return friendly ? std::max(cwnd, m_reno) : cwnd + (target - cwnd) / cwnd * acked;
    }

    double m_start = -1;
    double m_k = 0;
    double m_most = 0;
    double m_top = 0;
    double m_reno = 0;
    double m_prior = 0;
    bool m_plateau = true;
};

class Bbr : public TcpBbr
{
  public:
    static TypeId GetTypeId();

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Bbr>(this);
    }

    // The last that is asked before an ACK lets segments go.
    void CongControl(Ptr<TcpSocketState> s,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample) override
    {
        TcpBbr::CongControl(s, connection, sample);
        if (g_all && s->m_congState == TcpSocketState::CA_LOSS && !g_widened)
        {
            SequenceNumber32& highest = g_socket->m_txBuffer->m_highestSack.second;
            g_widened = true;
            g_highestSack = highest;
            highest = s->m_highTxMark;
        }
    }
};
