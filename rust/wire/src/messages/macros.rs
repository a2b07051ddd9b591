//! Macros that generate messages from their definitions.
//!
//! ```text
//! request! { Heartbeat = 12, versions 0..=4, flexible 4, HeartbeatRequest => HeartbeatResponse }
//!
//! messages! {
//!     struct HeartbeatRequest {
//!         group_id: String => 0..;
//!         group_instance_id: Option<String> => 3..;
//!     }
//! }
//! ```
//!
//! A field is `name: Type [= default] => versions [, nullable versions] [, null_with error] [, tag number] [,
//! [ignorable]];`. An `Option` may be null in all its versions unless `nullable` restricts them, and is null by
//! default. `null_with` names an earlier field, usually the error code: if this field is not 0, null is read as empty,
//! since some brokers send null with an error. With `null_with any`, null is always read as empty. A tagged field is
//! sent only if it differs from its default (KIP-482). A field that does not exist in a version is omitted if it has
//! its default or is `[ignorable]`; otherwise encoding fails.

/// Implements `Request` with the API key, the versions and the response type.
macro_rules! request {
    ($api:ident = $key:literal, versions $min:literal..=$max:literal, flexible $flexible:literal, $request:ident => $response:ident) => {
        impl $crate::messages::Request for $request {
            const KEY: $crate::messages::ApiKey = $crate::messages::ApiKey::$api;
            const MIN_VERSION: i16 = $min;
            const MAX_VERSION: i16 = $max;
            const FLEXIBLE: i16 = $flexible;
            type Response = $response;
        }
        $crate::messages::macros::message_of_api!($api, $request, $min, $max, $flexible);
        $crate::messages::macros::message_of_api!($api, $response, $min, $max, $flexible);
    };
}

/// Implements `Message` so that it checks the version, and derives the flexible flag from the version.
macro_rules! message_of_api {
    ($api:ident, $message:ident, $min:literal, $max:literal, $flexible:literal) => {
        impl $crate::messages::Message for $message {
            fn encode(
                &self,
                version: i16,
                out: &mut $crate::messages::MessageBuf,
            ) -> Result<(), $crate::messages::EncodeError> {
                if !($min..=$max).contains(&version) {
                    let api = stringify!($api);
                    return Err($crate::messages::EncodeError::Version { api, version, min: $min, max: $max });
                }
                let cx = $crate::messages::types::Cx { version, flexible: version >= $flexible };
                $crate::messages::types::Wire::write(self, cx, out)
            }

            fn decode(
                version: i16,
                input: &mut $crate::messages::Reader,
            ) -> Result<Self, $crate::messages::DecodeError> {
                if !($min..=$max).contains(&version) {
                    let kind = $crate::messages::DecodeErrorKind::Version { version, min: $min, max: $max };
                    return Err(input.error(kind).of(stringify!($api), version));
                }
                let cx = $crate::messages::types::Cx { version, flexible: version >= $flexible };
                $crate::messages::types::Wire::read(cx, input).map_err(|e| e.of(stringify!($api), version))
            }

            fn read_throttle_time_ms(
                version: i16,
                input: &mut $crate::messages::Reader,
            ) -> Result<i32, $crate::messages::DecodeError> {
                let cx = $crate::messages::types::Cx { version, flexible: version >= $flexible };
                <Self as $crate::messages::types::Wire>::read_throttle_time_ms(cx, input)
                    .map_err(|e| e.of(stringify!($api), version))
            }

            fn throttle_time_ms(&self) -> i32 {
                $crate::messages::types::Wire::throttle_time_ms(self)
            }

            fn set_throttle_time_ms(&mut self, throttle_time_ms: i32) {
                $crate::messages::types::Wire::set_throttle_time_ms(self, throttle_time_ms);
            }
        }

        #[cfg(any(test, feature = "json"))]
        impl $crate::messages::json::JsonMessage for $message {
            fn to_json(&self, version: i16) -> serde_json::Value {
                let cx = $crate::messages::types::Cx { version, flexible: version >= $flexible };
                $crate::messages::json::Json::to_json(self, cx)
            }

            fn from_json(version: i16, json: &serde_json::Value) -> Result<Self, $crate::messages::json::JsonError> {
                let cx = $crate::messages::types::Cx { version, flexible: version >= $flexible };
                $crate::messages::json::Json::from_json(cx, json)
            }
        }
    };
}

/// Defines structs and their codecs from field lists; the syntax is described above.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        struct $name:ident {
            $($field:ident: $type:ty $(= $default:expr)? => $versions:expr
                $(, nullable $nullable:expr)? $(, null_with $error:ident)? $(, tag $tag:literal)? $(, [$ignorable:ident])?;)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $(#[allow(missing_docs, reason = "the protocol's own names")] pub $field: $type,)*
            /// Tagged fields that are not part of this definition (KIP-482).
            pub unknown_tagged_fields: Vec<(u32, bytes::Bytes)>,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::messages::macros::value_or_default!($type $(, $default)?),)*
                    unknown_tagged_fields: Vec::new(),
                }
            }
        }

        #[allow(
            unused_variables, unused_mut, unused_assignments, unreachable_patterns,
            clippy::match_single_binding, clippy::manual_range_contains,
            reason = "one body serves messages with and without tags, defaults and fields"
        )]
        impl $crate::messages::types::Wire for $name {
            fn write(
                &self,
                cx: $crate::messages::types::Cx,
                out: &mut $crate::messages::MessageBuf,
            ) -> Result<(), $crate::messages::EncodeError> {
                use $crate::messages::EncodeError;
                let mut tagged: Vec<(u32, bytes::Bytes)> = Vec::new();
                $({
                    const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                    let tag: Option<u32> = $crate::messages::macros::option!($($tag)?);
                    if !($versions).contains(&cx.version) {
                        let ignorable: bool = $crate::messages::macros::is_present!($($ignorable)?);
                        if !ignorable && self.$field != $crate::messages::macros::value_or_default!($type $(, $default)?) {
                            return Err(EncodeError::FieldAbsent { field: FIELD, version: cx.version });
                        }
                    } else {
                        $(if self.$field.is_null() && !($nullable).contains(&cx.version) {
                            return Err(EncodeError::Null { field: FIELD, version: cx.version });
                        })?
                        match tag {
                            None => self.$field.write(cx, out).map_err(|e| e.within(FIELD))?,
                            Some(tag) => {
                                if self.$field != $crate::messages::macros::value_or_default!($type $(, $default)?) {
                                    let mut bytes = $crate::messages::MessageBuf::new();
                                    self.$field.write(cx, &mut bytes).map_err(|e| e.within(FIELD))?;
                                    tagged.push((tag, bytes.freeze()));
                                }
                            }
                        }
                    }
                })*
                if cx.flexible {
                    $crate::messages::types::write_tagged(tagged, &self.unknown_tagged_fields, out);
                }
                Ok(())
            }

            fn read(
                cx: $crate::messages::types::Cx,
                input: &mut $crate::messages::Reader,
            ) -> Result<Self, $crate::messages::DecodeError> {
                let mut message = Self::default();
                $({
                    const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                    let tag: Option<u32> = $crate::messages::macros::option!($($tag)?);
                    if tag.is_none() && ($versions).contains(&cx.version) {
                        message.$field = $crate::messages::macros::read_field!(
                            cx, input $(, nullable $nullable)? $(, null_with message $error)?
                        )
                        .map_err(|e| e.within(FIELD))?;
                    }
                })*
                if cx.flexible {
                    for (tag, mut field) in $crate::messages::types::read_tagged(input).map_err(|e| e.within(stringify!($name)))? {
                        match tag {
                            $($(tag if tag == $tag && ($versions).contains(&cx.version) => {
                                const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                                message.$field = $crate::messages::types::read_tagged_value(cx, input, &mut field)
                                    .map_err(|e| e.within(FIELD))?;
                            })?)*
                            _ => message.unknown_tagged_fields.push((tag, field.rest())),
                        }
                    }
                }
                Ok(message)
            }

            fn throttle_time_ms(&self) -> i32 {
                $crate::messages::macros::throttle!(self, $($field)*)
            }

            fn set_throttle_time_ms(&mut self, value: i32) {
                $crate::messages::macros::set_throttle!(self, value, $($field)*);
            }

            fn read_throttle_time_ms(
                cx: $crate::messages::types::Cx,
                input: &mut $crate::messages::Reader,
            ) -> Result<i32, $crate::messages::DecodeError> {
                let has_field =
                    false $(|| (stringify!($field) == "throttle_time_ms" && ($versions).contains(&cx.version)))*;
                if !has_field {
                    return Ok(0);
                }
                let mut message = Self::default();
                $({
                    const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                    let tag: Option<u32> = $crate::messages::macros::option!($($tag)?);
                    if tag.is_none() && ($versions).contains(&cx.version) {
                        message.$field = $crate::messages::macros::read_field!(
                            cx, input $(, nullable $nullable)? $(, null_with message $error)?
                        )
                        .map_err(|e| e.within(FIELD))?;
                        if stringify!($field) == "throttle_time_ms" {
                            return Ok($crate::messages::types::Wire::throttle_time_ms(&message));
                        }
                    }
                })*
                Ok(0)
            }
        }

        impl $crate::messages::types::Wire for Option<$name> {
            fn write(
                &self,
                cx: $crate::messages::types::Cx,
                out: &mut $crate::messages::MessageBuf,
            ) -> Result<(), $crate::messages::EncodeError> {
                $crate::messages::types::write_optional(self.as_ref(), cx, out)
            }

            fn read(
                cx: $crate::messages::types::Cx,
                input: &mut $crate::messages::Reader,
            ) -> Result<Self, $crate::messages::DecodeError> {
                $crate::messages::types::read_optional(cx, input)
            }

            fn is_null(&self) -> bool {
                self.is_none()
            }
        }

        #[cfg(any(test, feature = "json"))]
        #[allow(unused_variables, reason = "one body serves messages with and without tags")]
        impl $crate::messages::json::Json for $name {
            fn to_json(&self, cx: $crate::messages::types::Cx) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $(if ($versions).contains(&cx.version) {
                    let tag: Option<u32> = $crate::messages::macros::option!($($tag)?);
                    if tag.is_none() || self.$field != $crate::messages::macros::value_or_default!($type $(, $default)?) {
                        object.insert(
                            $crate::messages::json::camel_case(stringify!($field)),
                            $crate::messages::json::Json::to_json(&self.$field, cx),
                        );
                    }
                })*
                $crate::messages::json::put_unknown(&mut object, &self.unknown_tagged_fields);
                object.into()
            }

            fn from_json(
                cx: $crate::messages::types::Cx,
                json: &serde_json::Value,
            ) -> Result<Self, $crate::messages::json::JsonError> {
                let mut object = $crate::messages::json::fields(stringify!($name), json)?;
                let mut message = Self::default();
                $(if let Some(value) = object.remove(&$crate::messages::json::camel_case(stringify!($field))) {
                    const FIELD: &str = concat!(stringify!($name), ".", stringify!($field));
                    message.$field =
                        $crate::messages::json::Json::from_json(cx, value).map_err(|e| e.within(FIELD))?;
                })*
                message.unknown_tagged_fields =
                    $crate::messages::json::take_unknown(&mut object).map_err(|e| e.within(stringify!($name)))?;
                $crate::messages::json::reject_unknown_fields(stringify!($name), &object)?;
                Ok(message)
            }
        }

        #[cfg(any(test, feature = "arbitrary"))]
        impl $crate::messages::arbitrary::Arbitrary for $name {
            fn arbitrary(
                cx: $crate::messages::types::Cx,
                _: bool,
                random: &mut $crate::messages::arbitrary::Random,
            ) -> Self {
                let mut message = Self::default();
                $(if ($versions).contains(&cx.version) {
                    let nullable = true $(&& ($nullable).contains(&cx.version))?;
                    message.$field = $crate::messages::arbitrary::Arbitrary::arbitrary(cx, nullable, random);
                })*
                if cx.flexible && random.below(4) == 0 {
                    message.unknown_tagged_fields.push((90, bytes::Bytes::from_static(b"later")));
                }
                message
            }
        }
    )*};
}

/// Reads a field. Null is read as empty if the response has an error.
macro_rules! read_field {
    ($cx:ident, $input:ident) => {
        $crate::messages::types::Wire::read($cx, $input)
    };
    ($cx:ident, $input:ident, nullable $nullable:expr) => {
        $crate::messages::types::read_nullable(($nullable).contains(&$cx.version), $cx, $input)
    };
    ($cx:ident, $input:ident, null_with $message:ident any) => {
        $crate::messages::types::read_or_empty(-1, $cx, $input)
    };
    ($cx:ident, $input:ident, null_with $message:ident $error:ident) => {
        $crate::messages::types::read_or_empty($message.$error, $cx, $input)
    };
    ($cx:ident, $input:ident, nullable $nullable:expr, null_with $message:ident $error:ident) => {
        if ($nullable).contains(&$cx.version) {
            $crate::messages::types::Wire::read($cx, $input)
        } else {
            $crate::messages::types::read_or_empty($message.$error, $cx, $input).map(Some)
        }
    };
}

/// The explicit default, or the default of the type.
macro_rules! value_or_default {
    ($type:ty) => {
        <$type>::default()
    };
    ($type:ty, $default:expr) => {
        $default
    };
}

/// `Some` of the argument, or `None` if there is no argument.
macro_rules! option {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

/// True if there is an argument.
macro_rules! is_present {
    () => {
        false
    };
    ($value:ident) => {
        true
    };
}

/// The field `throttle_time_ms`, or 0 if the message does not have it.
macro_rules! throttle {
    ($message:ident, throttle_time_ms $($rest:ident)*) => {
        $message.throttle_time_ms
    };
    ($message:ident, $other:ident $($rest:ident)*) => {
        $crate::messages::macros::throttle!($message, $($rest)*)
    };
    ($message:ident,) => {
        0
    };
}

/// Sets the field `throttle_time_ms` if the message has it.
macro_rules! set_throttle {
    ($message:ident, $value:ident, throttle_time_ms $($rest:ident)*) => {
        $message.throttle_time_ms = $value
    };
    ($message:ident, $value:ident, $other:ident $($rest:ident)*) => {
        $crate::messages::macros::set_throttle!($message, $value, $($rest)*)
    };
    ($message:ident, $value:ident,) => {
        let _ = $value;
    };
}

pub(crate) use {is_present, message_of_api, option, read_field, set_throttle, throttle, value_or_default};
