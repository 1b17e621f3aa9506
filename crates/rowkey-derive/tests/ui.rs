//! The compiler errors that mistakes in attributes cause. Each file of `ui` makes one mistake; its
//! `.stderr` is the whole message.

#[test]
fn compile_errors_match_their_expected_output() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
