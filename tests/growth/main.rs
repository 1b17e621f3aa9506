//! No pattern sends more than proportionally many requests when it has more elements. What it costs in CPU time is
//! measured in `benches`, by the same code.

use std::time::Duration;

use rowkey_tests::TestResult;
use rowkey_tests::growth::{SUBJECTS, exponent};

/// A tenth more, for fixed parts that are sent in full pages and batches.
const AT_MOST: f64 = 1.1;

#[tokio::test]
async fn requests_grow_at_most_in_proportion_to_the_elements() -> TestResult {
    for subject in SUBJECTS {
        let sizes =
            if subject.sizes.len() < 3 || subject.sizes[2] < 1_000 { [4, 40] } else { [8, 80] };
        let mut points = Vec::new();
        for elements in sizes {
            let cost = subject.measure(elements, || Duration::ZERO).await;
            let cost = cost.map_err(|error| format!("{}: {error}", subject.name))?;
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            points.push((elements as f64, cost.requests as f64));
        }
        let [(few, few_requests), (many, many_requests)] = points[..] else { unreachable!() };
        assert!(
            many_requests / many <= few_requests / few * AT_MOST,
            "{}: {few_requests} requests for {few} elements, {many_requests} for {many}, n^{:.2}",
            subject.name,
            exponent(&points)
        );
    }
    Ok(())
}

#[test]
fn the_exponent_is_that_of_the_number_of_elements() {
    let of = |cost: fn(f64) -> f64| {
        let points = [100.0, 1_000.0, 10_000.0].map(|elements| (elements, cost(elements)));
        (exponent(&points) * 100.0).round() / 100.0
    };
    assert!((of(|n| 7.0 * n) - 1.0).abs() < 0.001);
    assert!((of(|n| n * n / 3.0) - 2.0).abs() < 0.001);
    assert!(of(|_| 5.0).abs() < 0.001);
    // A fixed part makes it smaller.
    assert!(of(|n| n + 500.0) < 1.0);
}
