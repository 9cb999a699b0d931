//! Terminal modes: raw mode for the client, RFC 4254 section 8 encoding for both sides, window sizes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex as Code, isatty,
    tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
pub use rustix::termios::{Termios, Winsize};

/// Opcode that ends the list of modes.
const TTY_OP_END: u8 = 0;
const TTY_OP_ISPEED: u8 = 128;
const TTY_OP_OSPEED: u8 = 129;
/// First undefined opcode, at which parsing stops (RFC 4254 section 8).
const FIRST_UNDEFINED: u8 = 160;
/// Value of a disabled character: 255 in the RFC's list of special characters; Linux uses 0.
const DISABLED: u32 = 255;

/// Special characters and their opcodes. VDSUSP (11), VFLUSH (15) and VSTATUS (17) do not exist on Linux.
/// What other systems lack is not in their tables: the peer keeps its default for it.
const CHARACTERS: &[(u8, Code)] = &[
    (1, Code::VINTR),
    (2, Code::VQUIT),
    (3, Code::VERASE),
    (4, Code::VKILL),
    (5, Code::VEOF),
    (6, Code::VEOL),
    (7, Code::VEOL2),
    (8, Code::VSTART),
    (9, Code::VSTOP),
    (10, Code::VSUSP),
    (12, Code::VREPRINT),
    (13, Code::VWERASE),
    (14, Code::VLNEXT),
    #[cfg(target_os = "linux")]
    (16, Code::VSWTC),
    (18, Code::VDISCARD),
];

const INPUT: &[(u8, InputModes)] = &[
    (30, InputModes::IGNPAR),
    (31, InputModes::PARMRK),
    (32, InputModes::INPCK),
    (33, InputModes::ISTRIP),
    (34, InputModes::INLCR),
    (35, InputModes::IGNCR),
    (36, InputModes::ICRNL),
    #[cfg(target_os = "linux")]
    (37, InputModes::IUCLC),
    (38, InputModes::IXON),
    (39, InputModes::IXANY),
    (40, InputModes::IXOFF),
    (41, InputModes::IMAXBEL),
    // RFC 8160.
    #[cfg(not(target_os = "freebsd"))]
    (42, InputModes::IUTF8),
];

const LOCAL: &[(u8, LocalModes)] = &[
    (50, LocalModes::ISIG),
    (51, LocalModes::ICANON),
    #[cfg(target_os = "linux")]
    (52, LocalModes::XCASE),
    (53, LocalModes::ECHO),
    (54, LocalModes::ECHOE),
    (55, LocalModes::ECHOK),
    (56, LocalModes::ECHONL),
    (57, LocalModes::NOFLSH),
    (58, LocalModes::TOSTOP),
    (59, LocalModes::IEXTEN),
    (60, LocalModes::ECHOCTL),
    (61, LocalModes::ECHOKE),
    (62, LocalModes::PENDIN),
];

const OUTPUT: &[(u8, OutputModes)] = &[
    (70, OutputModes::OPOST),
    #[cfg(target_os = "linux")]
    (71, OutputModes::OLCUC),
    (72, OutputModes::ONLCR),
    (73, OutputModes::OCRNL),
    (74, OutputModes::ONOCR),
    (75, OutputModes::ONLRET),
];

/// Control flags by opcode (RFC 4254 section 8). CS7 and CS8 are missing: they are values of one field (the
/// character size), not flags.
const CONTROL: &[(u8, ControlModes)] = &[(92, ControlModes::PARENB), (93, ControlModes::PARODD)];
const CS7: u8 = 90;
const CS8: u8 = 91;

/// Encodes the modes of a terminal for `pty-req`.
pub fn encode_modes(termios: &Termios) -> Vec<u8> {
    let mut out = Vec::with_capacity(300);
    let mut put = |opcode: u8, value: u32| {
        out.push(opcode);
        out.extend_from_slice(&value.to_be_bytes());
    };
    put(TTY_OP_OSPEED, termios.output_speed());
    put(TTY_OP_ISPEED, termios.input_speed());
    for &(opcode, code) in CHARACTERS {
        let value = u32::from(termios.special_codes[code]);
        put(opcode, if value == 0 { DISABLED } else { value });
    }
    for &(opcode, mode) in INPUT {
        put(opcode, termios.input_modes.contains(mode).into());
    }
    for &(opcode, mode) in LOCAL {
        put(opcode, termios.local_modes.contains(mode).into());
    }
    for &(opcode, mode) in OUTPUT {
        put(opcode, termios.output_modes.contains(mode).into());
    }
    let size = termios.control_modes & ControlModes::CSIZE;
    put(CS7, u32::from(size == ControlModes::CS7));
    put(CS8, u32::from(size == ControlModes::CS8));
    for &(opcode, mode) in CONTROL {
        put(opcode, termios.control_modes.contains(mode).into());
    }
    out.push(TTY_OP_END);
    out
}

/// Applies encoded modes. Unknown opcodes are skipped. Parsing stops at the end mark, at an undefined opcode,
/// and at a truncated value.
pub fn apply_modes(termios: &mut Termios, modes: &[u8]) {
    for entry in modes.chunks(5) {
        let &[opcode, a, b, c, d] = entry else { return };
        if opcode == TTY_OP_END || opcode >= FIRST_UNDEFINED {
            return;
        }
        apply_mode(termios, opcode, u32::from_be_bytes([a, b, c, d]));
    }
}

fn apply_mode(termios: &mut Termios, opcode: u8, value: u32) {
    let on = value != 0;
    if let Some((_, code)) = CHARACTERS.iter().find(|(each, _)| *each == opcode) {
        termios.special_codes[*code] = if value == DISABLED { 0 } else { value as u8 };
    } else if let Some(&(_, mode)) = INPUT.iter().find(|(each, _)| *each == opcode) {
        termios.input_modes.set(mode, on);
    } else if let Some(&(_, mode)) = LOCAL.iter().find(|(each, _)| *each == opcode) {
        termios.local_modes.set(mode, on);
    } else if let Some(&(_, mode)) = OUTPUT.iter().find(|(each, _)| *each == opcode) {
        termios.output_modes.set(mode, on);
    } else if let Some(&(_, mode)) = CONTROL.iter().find(|(each, _)| *each == opcode) {
        termios.control_modes.set(mode, on);
    } else {
        match opcode {
            CS7 if on => {
                termios.control_modes = (termios.control_modes - ControlModes::CSIZE) | ControlModes::CS7
            }
            CS8 if on => {
                termios.control_modes = (termios.control_modes - ControlModes::CSIZE) | ControlModes::CS8
            }
            // On a speed that the kernel does not offer, the old one stays.
            TTY_OP_ISPEED => drop(termios.set_input_speed(value)),
            TTY_OP_OSPEED => drop(termios.set_output_speed(value)),
            _ => {}
        }
    }
}

/// Sets the modes of `pty-req` on the slave of a new terminal.
pub fn set_modes(slave: impl AsFd, modes: &[u8]) -> io::Result<()> {
    let mut termios = tcgetattr(&slave)?;
    apply_modes(&mut termios, modes);
    Ok(tcsetattr(&slave, OptionalActions::Now, &termios)?)
}

/// True when the descriptor is a terminal.
pub fn is_terminal(fd: impl AsFd) -> bool {
    isatty(fd)
}

/// True when this process belongs to the terminal's foreground group.
///
/// # Errors
/// The descriptor is not this process's controlling terminal.
pub fn is_in_foreground(terminal: impl AsFd) -> io::Result<bool> {
    Ok(tcgetpgrp(terminal)? == rustix::process::getpgrp())
}

/// Window size; zeros where the descriptor is not a terminal.
pub fn window_size(fd: impl AsFd) -> Winsize {
    tcgetwinsize(fd).unwrap_or(Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 })
}

/// A terminal in raw mode, restored when dropped.
#[derive(Debug)]
pub struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

impl RawMode {
    /// Enters raw mode: every key is sent to the peer, without local echo or translation.
    pub fn enter(terminal: impl AsFd) -> io::Result<Self> {
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mode = Self { terminal, before };
        mode.reenter()?;
        Ok(mode)
    }

    /// Enters raw mode again after [`leave`](Self::leave), such as after the process was stopped.
    pub fn reenter(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        // Like `cfmakeraw`, except for parity marks, which are kept as in OpenSSH.
        raw.input_modes |= InputModes::IGNPAR;
        raw.input_modes -= InputModes::ISTRIP
            | InputModes::INLCR
            | InputModes::IGNCR
            | InputModes::ICRNL
            | InputModes::IXON
            | InputModes::IXANY
            | InputModes::IXOFF;
        #[cfg(target_os = "linux")]
        {
            raw.input_modes -= InputModes::IUCLC;
        }
        raw.local_modes -= LocalModes::ISIG
            | LocalModes::ICANON
            | LocalModes::ECHO
            | LocalModes::ECHOE
            | LocalModes::ECHOK
            | LocalModes::ECHONL
            | LocalModes::IEXTEN;
        raw.output_modes -= OutputModes::OPOST;
        raw.special_codes[Code::VMIN] = 1;
        raw.special_codes[Code::VTIME] = 0;
        Ok(tcsetattr(&self.terminal, OptionalActions::Drain, &raw)?)
    }

    /// Restores the terminal.
    pub fn leave(&self) -> io::Result<()> {
        Ok(tcsetattr(&self.terminal, OptionalActions::Drain, &self.before)?)
    }

    /// The original modes, for `pty-req`.
    pub fn before(&self) -> &Termios {
        &self.before
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terminal() -> Option<(crate::pty::Pty, OwnedFd)> {
        let Ok(pty) = crate::pty::Pty::allocate() else {
            lh_testkit::skip_unavailable("terminal modes", "no pseudo terminal here");
            return None;
        };
        let slave = pty.open_slave().unwrap();
        Some((pty, slave))
    }

    #[test]
    fn modes_round_trip_through_encoding() {
        let (Some((_one, from)), Some((_two, to))) = (terminal(), terminal()) else { return };
        let mut termios = tcgetattr(&from).unwrap();
        termios.local_modes -= LocalModes::ECHO;
        termios.input_modes |= InputModes::IUTF8 | InputModes::IXANY;
        termios.special_codes[Code::VINTR] = 0x18;
        termios.special_codes[Code::VEOL2] = 0;
        tcsetattr(&from, OptionalActions::Now, &termios).unwrap();
        let encoded = encode_modes(&tcgetattr(&from).unwrap());
        assert_eq!((encoded.len() % 5, encoded.last()), (1, Some(&TTY_OP_END)));
        set_modes(&to, &encoded).unwrap();
        let got = tcgetattr(&to).unwrap();
        assert_eq!(got.local_modes, termios.local_modes);
        assert_eq!(got.input_modes, termios.input_modes);
        assert_eq!(got.output_modes, termios.output_modes);
        assert_eq!(got.special_codes[Code::VINTR], 0x18);
        assert_eq!(got.special_codes[Code::VEOL2], 0);
        assert_eq!(encode_modes(&got), encoded);
    }

    #[test]
    fn drop_restores_the_terminal() {
        let Some((_pty, slave)) = terminal() else { return };
        let before = tcgetattr(&slave).unwrap();
        let raw = RawMode::enter(&slave).unwrap();
        assert!(!tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ICANON));
        raw.leave().unwrap();
        assert!(tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ICANON));
        raw.reenter().unwrap();
        drop(raw);
        let after = tcgetattr(&slave).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
        assert!(RawMode::enter(crate::fd::null().unwrap()).is_err());
        assert_eq!(window_size(crate::fd::null().unwrap()).ws_col, 0);
    }

    proptest! {
        #[test]
        fn any_modes_can_be_applied(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            if let Some((_pty, slave)) = terminal() {
                let mut termios = tcgetattr(&slave).unwrap();
                apply_modes(&mut termios, &bytes);
            }
        }
    }
}
