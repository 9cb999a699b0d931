//! Message numbers: those of both sides, of the client, and of the master.

pub(super) const HELLO: u32 = 1;
pub(super) const C_NEW_SESSION: u32 = 0x1000_0002;
pub(super) const C_ALIVE_CHECK: u32 = 0x1000_0004;
pub(super) const C_TERMINATE: u32 = 0x1000_0005;
pub(super) const C_OPEN_FWD: u32 = 0x1000_0006;
pub(super) const C_CLOSE_FWD: u32 = 0x1000_0007;
pub(super) const C_NEW_STDIO_FWD: u32 = 0x1000_0008;
pub(super) const C_STOP_LISTENING: u32 = 0x1000_0009;
pub(super) const C_PROXY: u32 = 0x1000_000f;
pub(super) const C_INFORMATION: u32 = 0x2000_0001;
pub(super) const S_OK: u32 = 0x8000_0001;
pub(super) const S_PERMISSION_DENIED: u32 = 0x8000_0002;
pub(super) const S_FAILURE: u32 = 0x8000_0003;
pub(super) const S_EXIT_MESSAGE: u32 = 0x8000_0004;
pub(super) const S_ALIVE: u32 = 0x8000_0005;
pub(super) const S_SESSION_OPENED: u32 = 0x8000_0006;
pub(super) const S_REMOTE_PORT: u32 = 0x8000_0007;
pub(super) const S_TTY_ALLOC_FAIL: u32 = 0x8000_0008;
pub(super) const S_PROXY: u32 = 0x8000_000f;
pub(super) const S_INFORMATION: u32 = 0x9000_0001;
