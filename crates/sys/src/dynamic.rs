//! C libraries that are loaded at run time, because most processes never need them or not every host has
//! them.
//!
//! Compared with linking, a build needs no development files, a host need not have the libraries, and
//! programs that do not use them start faster: Kerberos' eight libraries are half of the dynamic loader's
//! work for a client.
#![expect(unsafe_code, reason = "dlopen(3) and dlsym(3)")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

/// Why a library cannot be used. `Display` is the loader's text, which names the library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The library is not installed, or one that it needs.
    #[error("{text}")]
    Library {
        /// Name or path of the library.
        library: String,
        /// The loader's text.
        text: String,
    },
    /// The library lacks a function: it is too old, or another one of the same name.
    #[error("{text}")]
    Symbol {
        /// Name of the function.
        symbol: String,
        /// The loader's text.
        text: String,
    },
    /// This build does not load the library.
    #[error("{0} is not built in")]
    NotBuiltIn(&'static str),
}

/// A loaded library. It stays loaded until the process ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library(NonNull<c_void>);

impl Library {
    /// Loads a library by its path, or by its name from the system's library directories. This runs its
    /// initialisers.
    ///
    /// # Errors
    /// [`LoadError::Library`].
    pub(crate) fn open(name: &CStr) -> Result<Self, LoadError> {
        Self::load(name, libc::RTLD_LOCAL)
    }

    /// Like [`open`](Self::open), for a library that loads others. They find its exports as if the program
    /// were linked to it: some PAM modules do not name the library that they need.
    ///
    /// # Errors
    /// [`LoadError::Library`].
    #[cfg(all(target_os = "linux", not(target_env = "musl")))]
    pub(crate) fn open_for_others(name: &CStr) -> Result<Self, LoadError> {
        Self::load(name, libc::RTLD_GLOBAL)
    }

    fn load(name: &CStr, scope: c_int) -> Result<Self, LoadError> {
        // SAFETY: the name is a C string. The library's initialisers run as they would in a linked library.
        NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | scope) })
            .map(Self)
            .ok_or_else(|| LoadError::Library { library: shown(name), text: loader_error() })
    }

    /// Finds an exported function or value by its name, in this library or in one that it is linked to.
    ///
    /// # Errors
    /// [`LoadError::Symbol`].
    pub(crate) fn symbol(self, name: &CStr) -> Result<NonNull<c_void>, LoadError> {
        // SAFETY: the handle came from dlopen and is never closed; the name is a C string.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
            .ok_or_else(|| LoadError::Symbol { symbol: shown(name), text: loader_error() })
    }
}

fn shown(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

fn loader_error() -> String {
    // SAFETY: dlerror returns null or a C string that lives until this thread's next call of its family.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown reason".to_owned();
    }
    // SAFETY: as above; the string is copied at once.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Declares a structure with a field for each of a library's functions, and its `find`, which looks them up
/// in a [`Library`]. The macro's user asserts that each function has the declared type in the library.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $table:ident {
            $(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$meta])*
        $visibility struct $table {
            $($visibility $name: unsafe extern "C" fn($($argument: $kind),*) $(-> $result)?,)*
        }

        impl $table {
            /// Looks the functions up.
            fn find(library: crate::dynamic::Library) -> Result<Self, crate::dynamic::LoadError> {
                Ok(Self {
                    $($name: {
                        const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => panic!("a name with NUL"),
                        };
                        let symbol = library.symbol(NAME)?;
                        // SAFETY: the library's header declares the function with this type, and its soname
                        // promises that it stays so.
                        unsafe {
                            std::mem::transmute::<
                                std::ptr::NonNull<std::ffi::c_void>,
                                unsafe extern "C" fn($($argument: $kind),*) $(-> $result)?,
                            >(symbol)
                        }
                    },)*
                })
            }
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(target_env = "musl")))]
    fn functions_of_loaded_libraries_are_found_by_name() {
        let library = Library::open(c"libc.so.6").unwrap();
        assert!(library.symbol(c"getpid").is_ok());
        let missing = library.symbol(c"no_such_function").unwrap_err();
        assert!(matches!(&missing, LoadError::Symbol { symbol, .. } if symbol == "no_such_function"));
        assert!(missing.to_string().contains("no_such_function"));
        let missing = Library::open(c"libno-such.so.1").unwrap_err();
        assert!(matches!(&missing, LoadError::Library { library, .. } if library == "libno-such.so.1"));
        assert!(missing.to_string().contains("libno-such.so.1"));
    }
}
