//! The assertions of a script: `assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd`, chains such as `1 <= x
//! <= 2`, and variables.

use std::collections::HashMap;

/// What holds of the statements in `text`. `info` gives the fields of `tcp_info` that are known.
/// The answer says how many assertions were looked at.
///
/// # Errors
///
/// The first assertion that does not hold.
pub fn check(
    text: &str,
    variables: &mut HashMap<String, f64>,
    info: &dyn Fn(&str) -> Option<f64>,
) -> Result<usize, String> {
    let mut checked = 0;
    let statements = text.replace("\\\n", "\n");
    for statement in statements
        .lines()
        .flat_map(|l| l.split('#').next().unwrap_or_default().split(';'))
        .map(str::trim)
    {
        let value = |variables: &HashMap<String, f64>, word: &str| -> Option<f64> {
            let hex = word
                .strip_prefix("0x")
                .and_then(|h| u64::from_str_radix(h, 16).ok())
                .map(|h| h as f64);
            hex.or_else(|| word.parse().ok())
                .or_else(|| variables.get(word).copied())
                .or_else(|| state(word))
                .or_else(|| info(word))
        };
        if let Some(rest) = statement.strip_prefix("assert ") {
            let condition = rest.split(',').next().unwrap_or_default();
            if let Some(holds) = chain(condition, |w| value(variables, w)) {
                holds.map_err(|found| format!("{} (found {found})", condition.trim()))?;
                checked += 1;
            }
        } else if let Some((name, amount)) = statement.split_once("+=") {
            let sum =
                variables.get(name.trim()).zip(value(variables, amount.trim())).map(|(a, b)| a + b);
            variables.extend(sum.map(|s| (name.trim().to_string(), s)));
        } else if let Some((name, word)) = statement.split_once('=') {
            let number = value(variables, word.trim());
            variables.extend(number.map(|n| (name.trim().to_string(), n)));
        }
    }
    Ok(checked)
}

/// The kernel's `enum tcp_ca_state`.
fn state(word: &str) -> Option<f64> {
    let states = ["TCP_CA_Open", "TCP_CA_Disorder", "TCP_CA_CWR", "TCP_CA_Recovery", "TCP_CA_Loss"];
    states.iter().position(|s| *s == word).map(|p| p as f64)
}

/// `a <= b <= c`; nothing if an operand is unknown, otherwise whether it holds, or the values
/// found.
fn chain(condition: &str, value: impl Fn(&str) -> Option<f64>) -> Option<Result<(), String>> {
    let spaced = ["==", "<=", ">=", "!="]
        .iter()
        .fold(condition.to_string(), |text, op| text.replace(op, &format!(" {op} ")));
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let operands = words.iter().step_by(2).map(|w| value(w)).collect::<Option<Vec<f64>>>()?;
    let holds = |(i, op): (usize, &&str)| match *op {
        "==" => operands[i] == operands[i + 1],
        "!=" => operands[i] != operands[i + 1],
        "<=" => operands[i] <= operands[i + 1],
        ">=" => operands[i] >= operands[i + 1],
        "<" => operands[i] < operands[i + 1],
        ">" => operands[i] > operands[i + 1],
        _ => false,
    };
    if words.len() < 3 || words.len().is_multiple_of(2) {
        return None;
    }
    let found: Vec<String> = operands.iter().map(f64::to_string).collect();
    Some(if words.iter().skip(1).step_by(2).enumerate().all(holds) {
        Ok(())
    } else {
        Err(found.join(", "))
    })
}

#[test]
fn assertions_are_compared() {
    let info = |name: &str| (name == "tcpi_snd_cwnd").then_some(10.0);
    let mut variables = HashMap::new();
    let mut run = |text: &str| check(text, &mut variables, &info);
    assert_eq!(run("assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd"), Ok(1));
    assert_eq!(run("c = 8; c += 2\nassert tcpi_snd_cwnd==c"), Ok(1));
    assert_eq!(run("assert 9 <= tcpi_snd_cwnd <= 11; assert tcpi_unknown == 3"), Ok(1));
    assert_eq!(
        run("assert tcpi_snd_cwnd == 0x0b, 'text %d'"),
        Err("tcpi_snd_cwnd == 0x0b (found 10, 11)".into())
    );
}
