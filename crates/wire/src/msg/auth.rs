//! Messages of RFC 4252, RFC 4256 and RFC 4462.

use crate::NameList;
use crate::message::{Rest, messages};

messages! {
    /// `SSH_MSG_USERAUTH_REQUEST` (RFC 4252 section 5).
    UserauthRequest = 50; {
        /// Requested user name. Not trusted to be UTF-8.
        user: &'a [u8],
        /// The service to start, `ssh-connection`.
        service: &'a [u8],
        /// Name of the method.
        method: &'a [u8],
        /// Method-specific fields.
        fields: Rest<'a>,
    }
    /// `SSH_MSG_USERAUTH_FAILURE` (RFC 4252 section 5.1).
    UserauthFailure = 51; {
        /// Methods that can continue the authentication.
        methods: NameList<'a>,
        /// True when the request succeeded but further methods are required.
        partial_success: bool,
    }
    /// `SSH_MSG_USERAUTH_SUCCESS` (RFC 4252 section 5.1).
    UserauthSuccess = 52; {}
    /// `SSH_MSG_USERAUTH_BANNER` (RFC 4252 section 5.4).
    UserauthBanner = 53; {
        /// Text for the user. Not trusted to be UTF-8 nor free of control characters.
        text: &'a [u8],
        /// RFC 3066 tag.
        language: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_PK_OK` (RFC 4252 section 7).
    UserauthPkOk = 60; {
        /// The algorithm of the request.
        algorithm: &'a [u8],
        /// The key blob of the request.
        key: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_PASSWD_CHANGEREQ` (RFC 4252 section 8).
    UserauthPasswdChangereq = 60; {
        /// Text that tells the user why.
        prompt: &'a [u8],
        /// RFC 3066 tag.
        language: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_INFO_REQUEST` (RFC 4256 section 3.2).
    UserauthInfoRequest = 60; {
        /// Title of the prompt.
        name: &'a [u8],
        /// Text before the prompts.
        instruction: &'a [u8],
        /// RFC 3066 tag.
        language: &'a [u8],
        /// Number of prompts.
        count: u32,
        /// `count` pairs of `string` prompt, `boolean` echo.
        prompts: Rest<'a>,
    }
    /// `SSH_MSG_USERAUTH_INFO_RESPONSE` (RFC 4256 section 3.4).
    UserauthInfoResponse = 61; {
        /// Number of responses.
        count: u32,
        /// `count` times `string` response.
        responses: Rest<'a>,
    }
    /// `SSH_MSG_USERAUTH_GSSAPI_RESPONSE` (RFC 4462 section 3.3).
    UserauthGssapiResponse = 60; {
        /// The mechanism that the server chose: its object identifier in DER.
        mechanism: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_GSSAPI_TOKEN` (RFC 4462 section 3.4).
    UserauthGssapiToken = 61; {
        /// Token for the peer's GSS-API library.
        token: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_GSSAPI_EXCHANGE_COMPLETE` (RFC 4462 section 3.5).
    UserauthGssapiExchangeComplete = 63; {}
    /// `SSH_MSG_USERAUTH_GSSAPI_ERROR` (RFC 4462 section 3.8).
    UserauthGssapiError = 64; {
        /// Major status (RFC 2744).
        major: u32,
        /// Minor status, defined by the mechanism.
        minor: u32,
        /// Error text for the user. Not trusted to be UTF-8 nor free of control characters.
        text: &'a [u8],
        /// RFC 3066 tag.
        language: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_GSSAPI_ERRTOK` (RFC 4462 section 3.9).
    UserauthGssapiErrtok = 65; {
        /// Error token for the peer's GSS-API library.
        token: &'a [u8],
    }
    /// `SSH_MSG_USERAUTH_GSSAPI_MIC` (RFC 4462 section 3.5).
    UserauthGssapiMic = 66; {
        /// The checksum.
        mic: &'a [u8],
    }
}
