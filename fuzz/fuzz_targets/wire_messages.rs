//! Every message struct: no panic on any payload, and parsed messages encode to the same bytes.
#![no_main]

use lh_wire::{Message, msg};
use libfuzzer_sys::fuzz_target;

macro_rules! try_all {
    ($payload:expr, $($name:ident)*) => {$(
        if let Ok(message) = msg::$name::decode($payload) {
            let again = message.to_payload();
            assert_eq!(msg::$name::decode(&again), Ok(message));
        }
    )*};
}

fuzz_target!(|payload: &[u8]| {
    try_all!(payload,
        Disconnect Ignore Unimplemented Debug ServiceRequest ServiceAccept ExtInfo KexInit NewKeys KexEcdhInit
        KexEcdhReply KexDhInit KexDhReply KexDhGexRequest KexDhGexGroup KexDhGexInit KexDhGexReply Ping Pong
        UserauthRequest UserauthFailure UserauthSuccess UserauthBanner UserauthPkOk UserauthPasswdChangereq
        UserauthInfoRequest UserauthInfoResponse UserauthGssapiResponse UserauthGssapiToken UserauthGssapiExchangeComplete
        UserauthGssapiError UserauthGssapiErrtok UserauthGssapiMic GlobalRequest RequestSuccess RequestFailure ChannelOpen
        ChannelOpenConfirmation ChannelOpenFailure ChannelWindowAdjust ChannelData ChannelExtendedData ChannelEof
        ChannelClose ChannelRequest ChannelSuccess ChannelFailure);
});
