//! The macro that turns a field list into a message struct with both directions of its codec.

use crate::{Mpint, NameList, Reader, Result, Writer};

/// An `SSH_MSG_*` with its number and both directions of its codec.
pub trait Message<'a>: Sized {
    /// The message number of RFC 4250 section 4.1.2 or of the defining document.
    const NUMBER: u8;

    /// Reads a whole payload, message number included. Trailing bytes are an error.
    fn decode(payload: &'a [u8]) -> Result<Self>;

    /// Appends the payload, message number included.
    fn encode(&self, out: &mut Vec<u8>);

    /// Returns the encoded payload as a new vector.
    fn to_payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

/// One field of a message.
pub(crate) trait Field<'a>: Sized {
    fn read(reader: &mut Reader<'a>) -> Result<Self>;
    fn write(&self, out: &mut Vec<u8>);
}

impl<'a> Field<'a> for bool {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.boolean()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_bool(*self);
    }
}

impl<'a> Field<'a> for u8 {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.u8()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(*self);
    }
}

impl<'a> Field<'a> for u32 {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.u32()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(*self);
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.string()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self);
    }
}

impl<'a> Field<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.text()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.as_bytes());
    }
}

impl<'a> Field<'a> for Mpint<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.mpint()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_mpint(self.magnitude());
    }
}

impl<'a> Field<'a> for NameList<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.name_list()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.as_str().as_bytes());
    }
}

/// `byte[n]` without a length, such as the KEXINIT cookie.
impl<'a, const N: usize> Field<'a> for [u8; N] {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        reader.array()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_bytes(self);
    }
}

/// The undecoded rest of a message: fields whose layout depends on an earlier field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest<'a>(
    /// The bytes, not interpreted.
    pub &'a [u8],
);

impl<'a> Field<'a> for Rest<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self(reader.rest()))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.0);
    }
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $number:expr; { $($(#[$fdoc:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a> {
            $($(#[$fdoc])* pub $field: $type,)*
            /// Gives messages without borrowed fields the lifetime parameter that the others have.
            pub marker: core::marker::PhantomData<&'a ()>,
        }

        impl<'a> $name<'a> {
            /// Builds the message from its fields, in wire order.
            #[allow(clippy::too_many_arguments, clippy::new_without_default, reason = "one argument per field")]
            pub const fn new($($field: $type),*) -> Self {
                Self { $($field,)* marker: core::marker::PhantomData }
            }
        }

        impl<'a> $crate::Message<'a> for $name<'a> {
            const NUMBER: u8 = $number;

            fn decode(payload: &'a [u8]) -> $crate::Result<Self> {
                let mut reader = $crate::Reader::new(payload);
                let got = reader.u8()?;
                if got != Self::NUMBER {
                    return Err($crate::WireError::WrongMessage { expected: Self::NUMBER, got });
                }
                $(let $field = $crate::message::Field::read(&mut reader)?;)*
                reader.finish()?;
                Ok(Self { $($field,)* marker: core::marker::PhantomData })
            }

            fn encode(&self, out: &mut Vec<u8>) {
                out.push(Self::NUMBER);
                $($crate::message::Field::write(&self.$field, out);)*
            }
        }
    )*};
}
pub(crate) use messages;
