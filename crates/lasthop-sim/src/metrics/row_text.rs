//! Numbers as the files of runs have them.

/// The numbers of a row as a file has them: exact and without an exponent where Python's `repr` has
/// none, whole numbers without a point, unknown ones empty; separated by commas.
pub fn row_text(values: &[f64]) -> String {
    let mut text = String::with_capacity(values.len() * 8);
    for (i, &value) in values.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        push_number(&mut text, value);
    }
    text
}

fn push_number(text: &mut String, value: f64) {
    if value.is_nan() {
        return;
    }
    let whole = value as i64;
    if whole as f64 == value && value.abs() < 1e15 {
        push_whole(text, whole);
    } else if value.is_infinite() {
        text.push_str(if value > 0.0 { "inf" } else { "-inf" });
    } else if !push_shortest(text, value) {
        push_exactly(text, value);
    }
}

fn push_whole(text: &mut String, value: i64) {
    if value < 0 {
        text.push('-');
    }
    let mut digits = [0; 20];
    let (mut left, mut first) = (value.unsigned_abs(), digits.len());
    loop {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    text.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

/// Appends a number that is not whole if its shortest text is that of Python; returns false, and
/// appends nothing, if that is not certain.
fn push_shortest(text: &mut String, value: f64) -> bool {
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format_finite(value);
    let bytes = shortest.as_bytes();
    let bits = fraction_bits(value);
    let Some(point) = bytes.iter().position(|&b| b == b'.') else { return false };
    match bytes {
        [mantissa @ .., b'e', b'-', exponent @ b'5'..=b'9'] => {
            let after = (mantissa.len() - point - 1) as i32;
            let certain = bits > 0 && bits != after + 1 + i32::from(exponent - b'0');
            if certain {
                text.push_str(&shortest[..mantissa.len()]);
                text.push_str("e-0");
                text.push(char::from(*exponent));
            }
            certain
        }
        _ => {
            let after = (bytes.len() - point - 1) as i32;
            let plain = (1e-4..1e15).contains(&value.abs());
            let certain = plain && bits > 0 && bits != after + 1;
            if certain {
                text.push_str(shortest);
            }
            certain
        }
    }
}

/// Appends a number that is not whole, or is at least 10^15.
#[cold]
fn push_exactly(text: &mut String, value: f64) {
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value < 0.0 {
        text.push('-');
    }
    let count = mantissa.bytes().filter(u8::is_ascii_digit).count();
    // Of two shortest numbers equally near, Python takes the even one, as rounding does; the lower
    // one may be too far from a power of two.
    let rounded = may_be_between(value, count, exponent)
        .then(|| format!("{:.*e}", count - 1, value.abs()))
        .filter(|text| text.parse() == Ok(value.abs()));
    let mantissa = rounded.as_ref().map_or(mantissa, |r| r.split('e').next().unwrap_or(mantissa));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    match (exponent, usize::try_from(exponent)) {
        (_, Ok(e)) if e < 16 && digits.len() > e + 1 => {
            text.push_str(&digits[..=e]);
            text.push('.');
            text.push_str(&digits[e + 1..]);
        }
        (_, Ok(e)) if e < 16 => {
            text.push_str(&digits);
            text.extend(std::iter::repeat_n('0', e + 1 - digits.len()));
            text.push_str(".0");
        }
        (-4..=-1, _) => {
            text.push_str("0.");
            text.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            text.push_str(&digits);
        }
        _ => {
            text.push_str(&digits[..1]);
            if digits.len() > 1 {
                text.push('.');
                text.push_str(&digits[1..]);
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            text.push_str(&format!("e{sign}{:02}", exponent.abs()));
        }
    }
}

/// True if a number may be in the middle between two texts with as many digits as its shortest one
/// has, `digits`, of which the first is that of ten to the power of `exponent`: it ends with the
/// digit behind them then. A number with a fraction has as many digits behind the point as bits.
fn may_be_between(value: f64, digits: usize, exponent: i32) -> bool {
    let fraction = fraction_bits(value);
    fraction <= 0 || fraction == digits as i32 - exponent
}

/// Bits behind the point of a number; 0 or less of a whole one.
fn fraction_bits(value: f64) -> i32 {
    const STORED: i32 = f64::MANTISSA_DIGITS as i32 - 1;
    let (stored, unit) = (value.to_bits() & ((1 << STORED) - 1), value.to_bits() >> STORED & 0x7ff);
    let unit = (unit as i32 - 1023 - STORED).max(-1074);
    -(unit + (stored | 1 << STORED).trailing_zeros() as i32)
}
