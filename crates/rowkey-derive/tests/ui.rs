//! What a mistake in an attribute looks like to whoever made it. Each file of `ui` makes one; its
//! `.stderr` is the whole message.

#[test]
fn a_mistake_is_explained_where_it_was_made() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
