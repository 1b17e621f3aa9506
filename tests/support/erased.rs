//! Sweeps whose code is compiled once and not for each scenario: a scenario is a trait object, and its state
//! and its result are [`Any`].

use std::any::Any;
use std::marker::PhantomData;
use std::pin::Pin;

use rowkey_emulator::{Server, Sweep, SweepError, Swept};

use crate::{TestError, TestResult};

type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The four parts of a scenario.
trait Scenario {
    fn setup<'a>(&'a self, server: &'a Server) -> LocalFuture<'a, TestResult<Box<dyn Any>>>;
    fn act<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, Box<dyn Any>>;
    fn settle<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, TestResult>;
    fn check<'a>(
        &'a self,
        server: &'a Server,
        state: &'a dyn Any,
        result: Option<&'a dyn Any>,
    ) -> LocalFuture<'a, TestResult>;
}

/// The closures of a scenario with state `A` and result `T`.
struct Closures<A, T, Setup, Act, Settle, Check> {
    setup: Setup,
    act: Act,
    settle: Settle,
    check: Check,
    types: PhantomData<fn(A) -> T>,
}

fn as_its_type<X: 'static>(any: &dyn Any) -> &X {
    any.downcast_ref().expect("the closures of one scenario agree")
}

impl<A, T, Setup, Act, Settle, Check> Scenario for Closures<A, T, Setup, Act, Settle, Check>
where
    A: 'static,
    T: 'static,
    Setup: AsyncFn(&Server) -> TestResult<A>,
    Act: AsyncFn(&A) -> T,
    Settle: AsyncFn(&A) -> TestResult,
    Check: AsyncFn(&Server, &A, Option<&T>) -> TestResult,
{
    fn setup<'a>(&'a self, server: &'a Server) -> LocalFuture<'a, TestResult<Box<dyn Any>>> {
        Box::pin(async { Ok(Box::new((self.setup)(server).await?) as Box<dyn Any>) })
    }

    fn act<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, Box<dyn Any>> {
        Box::pin(async { Box::new((self.act)(as_its_type(state)).await) as Box<dyn Any> })
    }

    fn settle<'a>(&'a self, state: &'a dyn Any) -> LocalFuture<'a, TestResult> {
        Box::pin((self.settle)(as_its_type(state)))
    }

    fn check<'a>(
        &'a self,
        server: &'a Server,
        state: &'a dyn Any,
        result: Option<&'a dyn Any>,
    ) -> LocalFuture<'a, TestResult> {
        Box::pin((self.check)(server, as_its_type(state), result.map(as_its_type)))
    }
}

/// Like [`Sweep::run`], for many scenarios in one program.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
pub async fn run<A: 'static, T: 'static>(
    sweep: Sweep<'_>,
    setup: impl AsyncFn(&Server) -> TestResult<A>,
    act: impl AsyncFn(&A) -> T,
    settle: impl AsyncFn(&A) -> TestResult,
    check: impl AsyncFn(&Server, &A, Option<&T>) -> TestResult,
) -> Result<Swept, SweepError> {
    let scenario = Closures { setup, act, settle, check, types: PhantomData };
    let ran: LocalFuture<'_, _> = Box::pin(run_scenario(sweep, &scenario));
    ran.await
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn run_scenario(sweep: Sweep<'_>, scenario: &dyn Scenario) -> Result<Swept, SweepError> {
    sweep
        .run(
            async |server| scenario.setup(server).await.map_err(|error| as_error(&error)),
            async |state: &Box<dyn Any>| scenario.act(&**state).await,
            async |state| scenario.settle(&**state).await.map_err(|error| as_error(&error)),
            async |server, state, result: Option<&Box<dyn Any>>| {
                let result = result.map(|result| &**result);
                scenario.check(server, &**state, result).await.map_err(|error| as_error(&error))
            },
        )
        .await
}

/// The error with its line, as text.
fn as_error(error: &TestError) -> Box<dyn std::error::Error> {
    error.to_string().into()
}
