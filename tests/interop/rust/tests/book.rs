//! The code of 0.21 that the migration guide shows is the code that compiles here, and the calls of rowkey that its tables
//! name are made by the programs beside them, which are doctests.

const GUIDE: &str = include_str!("../../../../docs/src/migrate/azure-data-tables.md");
const OTHERS: &str = include_str!("../../../../docs/src/migrate/others.md");
const BEFORE: &str = include_str!("../src/before.rs");

/// Without what an indentation changes.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_code_block_of_the_guide_compiles() {
    let before = lines(BEFORE);
    let blocks: Vec<_> = GUIDE
        .split("```rs\n")
        .skip(1)
        .map(|block| lines(block.split("```").next().unwrap_or_default()))
        .collect();
    assert!(blocks.len() >= 2, "{} blocks", blocks.len());
    for block in blocks {
        assert!(
            before.windows(block.len()).any(|window| window == block),
            "not in src/before.rs: {block:#?}"
        );
    }
}

/// The words of at least three letters in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.len() >= 3 && !word.starts_with(|first: char| first.is_ascii_digit()))
}

#[test]
fn every_call_in_the_tables_occurs_in_the_programs() {
    for (library, at_least) in [(".NET", 9), ("Python", 7), ("JavaScript", 7)] {
        let section = OTHERS.split(&format!("\n## {library}\n")).nth(1).expect("a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let programs: String = section
            .split("```rust\n")
            .skip(1)
            .filter_map(|block| block.split("```").next())
            .collect();
        let table = section
            .lines()
            .skip_while(|line| !line.ends_with("| rowkey |"))
            .take_while(|line| line.starts_with('|'))
            .skip(2);
        let calls: Vec<_> = table.map(|row| row.split('|').nth(2).expect("two columns")).collect();
        assert!(calls.len() >= at_least, "{library}: {calls:?}");
        for cell in calls {
            for word in cell.split('`').skip(1).step_by(2).flat_map(words) {
                assert!(words(&programs).any(|other| other == word), "{library}: {word} of {cell}");
            }
        }
    }
}
