//! The compiler errors that mistakes in attributes cause. Each file of `ui` makes one mistake; its
//! `.stderr` is the whole message.

#[test]
fn a_mistake_is_explained_where_it_was_made() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
