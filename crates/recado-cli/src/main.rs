//! The `recado` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    recado_cli::main()
}
