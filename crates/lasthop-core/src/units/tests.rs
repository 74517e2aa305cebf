use super::*;

#[test]
fn parses_text_with_units() {
    assert_eq!(Duration::parse("170 ms"), Ok(Duration::millis(170)));
    assert_eq!(Duration::parse("0.5s"), Ok(Duration::millis(500)));
    assert_eq!(Duration::parse("1e3 us"), Ok(Duration::millis(1)));
    assert_eq!(Rate::parse("250 kbps"), Ok(Rate(250_000)));
    assert_eq!(Size::parse("20 segments"), Ok(Size::Segments(20.0)));
    assert_eq!(Size::parse("150 kB"), Ok(Size::Bytes(150_000)));
    assert_eq!(QueueLimit::parse("49 packets"), Ok(QueueLimit::Packets(49)));
    assert_eq!(Share::parse("1 %"), Ok(Share(0.01)));
    assert_eq!(Share::parse("0.07"), Ok(Share(0.07)));
}

/// The units of the output ("Mbit/s") are accepted as input.
#[test]
fn rates_may_be_given_in_bit_per_second() {
    for (text, rate) in [
        ("7 bit/s", 7),
        ("250 kbit/s", 250_000),
        ("1.5Mbit/s", 1_500_000),
        ("10 Gbit/s", 10_000_000_000),
    ] {
        assert_eq!(Rate::parse(text), Ok(Rate(rate)));
    }
    assert!(Rate::parse("1 MBit/s").unwrap_err().contains("Mbps, Gbps, bit/s, kbit/s, Mbit/s"));
}

#[test]
fn quantities_of_any_dimension() {
    let read = |text| AnyQuantity::parse(text).map(|q| (q.number, q.unit, q.dimension, q.base));
    assert_eq!(read("170 ms"), Some((170.0, "ms", "s", 0.17)));
    assert_eq!(read("1GiB"), Some((1.0, "GiB", "B", 1073741824.0)));
    assert_eq!(read("7 %"), Some((7.0, "%", "share", 0.07)));
    assert_eq!(read("2 Mbit/s"), Some((2.0, "Mbit/s", "bit/s", 2e6)));
    assert_eq!(read("-1e3"), Some((-1000.0, "", "", -1000.0)));
    for text in ["", "fast", "3 parsecs", "nan", "inf", "1e999", "ms", "e"] {
        assert_eq!(read(text), None, "{text}");
    }
}

/// `AnyQuantity` parses every unit of a scenario to the same value as the specific type.
#[test]
fn any_quantity_agrees_with_each_kind() {
    let base = |unit: &str| AnyQuantity::parse(&format!("3 {unit}")).map(|q| (q.dimension, q.base));
    for (unit, _) in TIME_UNITS {
        let ns = Duration::parse(&format!("3 {unit}")).unwrap();
        assert_eq!(base(unit), Some(("s", ns.decimal_secs())));
    }
    for (unit, _) in RATE_UNITS {
        assert_eq!(
            base(unit),
            Rate::parse(&format!("3 {unit}")).ok().map(|r| ("bit/s", r.0 as f64))
        );
    }
    for (unit, _) in SIZE_UNITS {
        assert_eq!(
            base(unit),
            Size::parse(&format!("3 {unit}")).ok().map(|b| ("B", b.bytes(1) as f64))
        );
    }
    for (unit, _) in PACKET_UNITS {
        assert_eq!(base(unit), Some(("packets", 3.0)));
    }
}

#[test]
fn errors_state_what_is_allowed() {
    assert!(Duration::parse("170").unwrap_err().contains("ms"));
    assert!(Duration::parse("-1 s").unwrap_err().contains("negative"));
    assert!(Rate::parse("3 parsecs").unwrap_err().contains("Mbps"));
    assert!(Rate::parse("NaN bps").is_err());
    assert!(Share::parse("120 %").unwrap_err().contains("100 %"));
    assert!(Share::from_number(f64::NAN).is_err());
}

#[test]
fn text_and_value_round_trip() {
    for d in [0, 1, 1_500, 2_000_000, 3_000_000_000, 33_280_000] {
        assert_eq!(Duration::parse(&Duration(d).text()), Ok(Duration(d)));
    }
    for s in [0.0, 0.01, 0.07, 0.055133, 1.0] {
        assert_eq!(Share::parse(&Share(s).text()), Ok(Share(s)));
    }
}

#[test]
fn decimal_secs_is_the_float_nearest_to_the_decimal() {
    for ns in
        [60_000_000_000, 72_000_000, 1, 999_999_999, 7_000_000, 123_456_789_012_345, 1_000_000_000]
    {
        let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        assert_eq!(Duration(ns).decimal_secs(), text.parse::<f64>().unwrap());
    }
    assert_eq!(Duration::secs(60).decimal_secs().to_string(), "60");
    assert_eq!(Duration::millis(72).decimal_secs().to_string(), "0.072");
}

#[test]
fn serialisation_times_of_the_reference_path() {
    assert_eq!(Rate(10_000_000).time_for(1040), Duration::micros(832));
    assert_eq!(Rate(1_000_000).time_for(40), Duration::micros(320));
    assert_eq!(Rate(0).time_for(1), Duration::MAX);
}

#[test]
fn rates_may_be_in_lower_case() {
    assert_eq!(Rate::parse("2mbps"), Ok(Rate(2_000_000)));
    assert_eq!(Rate::parse("3 gbit/s"), Ok(Rate(3_000_000_000)));
    assert_eq!(AnyQuantity::parse("2 mbit/s").unwrap().unit, "Mbit/s");
    assert!(Rate::parse("2 MBps").is_err());
    assert!(Duration::parse("2 S").is_err());
    assert!(Size::parse("2 mb").is_err());
}
