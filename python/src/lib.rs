//! The native half of the Python package `mendpath`: plans and their runs, with parts of simulations
//! that are classes of Python, the analysis of captures,
//! and the transport for asyncio. What users see, with its documentation, is in `lib/mendpath`.

mod aio;
mod attention;
mod files;
mod parts;
mod sim;
mod traces;

/// `mendpath._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::aio::{
        Bridge, NativeClientConfig, NativeConnection, NativeEndpoint, NativeIdentity, NativeReader,
        NativeServerConfig, NativeWriter, Operation, Ring, forked,
    };
    #[pymodule_export]
    use crate::parts::{Acked, Copy, Packet, Path, Unsent, Wait};
    #[pymodule_export]
    use crate::sim::{NativeCampaign, NativePlan, NativeResults};
    #[pymodule_export]
    use crate::traces::{analyze, page};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
