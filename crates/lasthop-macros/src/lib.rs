//! The attribute of window rules. `lasthop-tcp` exports it as `lasthop_tcp::window::window_rule`,
//! where its use is shown.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Adds the method `methods` to an implementation of `WindowRule`: the names of the methods that
/// the implementation has.
///
/// The sender calls some methods only for rules that have them. They are found here, so that no
/// list of them must be kept beside the code.
#[proc_macro_attribute]
pub fn window_rule(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return error("#[window_rule] takes no arguments");
    }
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let is_impl =
        tokens.iter().any(|t| matches!(t, TokenTree::Ident(i) if i.to_string() == "impl"));
    match tokens.pop() {
        Some(TokenTree::Group(body)) if is_impl && body.delimiter() == Delimiter::Brace => {
            tokens.push(with_methods(&body).into());
            tokens.into_iter().collect()
        }
        _ => error("#[window_rule] goes with `impl WindowRule for …`"),
    }
}

/// The body of the implementation with the method `methods` at its end.
fn with_methods(body: &Group) -> Group {
    let names: Vec<String> = methods(body.stream()).iter().map(|n| format!("{n:?}")).collect();
    let method = format!("fn methods(&self) -> &[&'static str] {{ &[{}] }}", names.join(", "));
    let mut stream = body.stream();
    stream.extend(method.parse::<TokenStream>().unwrap_or_default());
    let mut whole = Group::new(Delimiter::Brace, stream);
    whole.set_span(body.span());
    whole
}

/// The names of the functions in the body of an implementation. Those inside of functions are in
/// separate groups.
fn methods(body: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let name = |pair: &[TokenTree]| match pair {
        [TokenTree::Ident(keyword), TokenTree::Ident(name)] if keyword.to_string() == "fn" => {
            Some(name.to_string())
        }
        _ => None,
    };
    tokens.windows(2).filter_map(name).collect()
}

fn error(message: &str) -> TokenStream {
    format!("compile_error!({message:?});").parse().unwrap_or_default()
}
