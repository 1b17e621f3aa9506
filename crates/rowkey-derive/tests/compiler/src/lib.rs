//! The compiler of the calling test, and the libraries that cargo passes to it.
//!
//! A test that compiles programs can use them again. A project of its own, as trybuild makes one, would build
//! every dependency twice more: 190 seconds of a processor instead of 6.

use proc_macro::{Literal, TokenStream};

/// Expands to the compiler of the calling crate and the arguments that every program needs: its edition,
/// the libraries, and where theirs are. A slice of texts.
#[proc_macro]
pub fn compiler(_: TokenStream) -> TokenStream {
    let mut words = vec![std::env::current_exe().expect("the compiler has a path")];
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--extern" || argument == "-L" {
            words.push(argument.into());
            words.extend(arguments.next().map(Into::into));
        } else if argument.to_string_lossy().starts_with("--edition=") {
            words.push(argument.into());
        }
    }
    let words = words.iter().map(|word| {
        let word = Literal::string(word.to_str().expect("paths are UTF-8"));
        format!("{word},")
    });
    format!("&[{}]", words.collect::<String>()).parse().expect("literals make a slice")
}
