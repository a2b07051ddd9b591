//! Safe wrapper of the system's Kerberos library, which is loaded when a client that uses GSSAPI is created.
//!
//! The library is not bundled with the wheel, because a bundled copy would lack the patches and the configuration
//! (`krb5.conf`) of the distribution. MIT's library and Apple's GSS framework share the C interface of RFC 2744.
//!
//! This file is not split despite its length. It contains all unsafe code of the SASL module, so that the code can be
//! reviewed in one pass.
#![allow(unsafe_code, reason = "a library loaded at run time is called through raw pointers")]

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libloading::Library;
use samsarrow_wire::sync::lock;

type Handle = *mut c_void;
type Status = u32;

/// An object identifier. On Intel, Apple's header declares this struct as packed.
#[repr(C)]
#[cfg_attr(all(target_os = "macos", target_arch = "x86_64"), repr(packed(2)))]
struct Oid {
    length: u32,
    elements: *const u8,
}

impl Oid {
    const fn new(bytes: &'static [u8]) -> Self {
        Self { length: bytes.len() as u32, elements: bytes.as_ptr() }
    }
}

#[repr(C)]
struct OidSet {
    count: usize,
    elements: *const Oid,
}

#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    const EMPTY: Self = Self { length: 0, value: null_mut() };

    /// Wraps bytes that the library only reads. The bytes must outlive the call.
    fn borrowing(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct KeyValueSet {
    count: u32,
    elements: *const KeyValue,
}

// Object identifiers of RFC 1964 and RFC 2743.
static KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
static PRINCIPAL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01];
static SERVICE_AT_HOST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x04];

const INITIATE: c_int = 1;
const INDEFINITE: u32 = u32::MAX;
const MUTUAL: u32 = 2;
const SEQUENCE: u32 = 8;
const INTEGRITY: u32 = 32;
/// Bits of a status that indicate an error.
const ERRORS: Status = 0xffff_0000;
const CONTINUE_NEEDED: Status = 1;
/// Maximum number of texts for a status. A library that returns more texts is faulty.
const MAX_TEXTS: usize = 8;

/// Declares a table of library functions, which are loaded by name.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(#[$doc])*
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// # Safety
            /// The library's functions must have the signatures of MIT's headers, and the library must never be
            /// unloaded.
            unsafe fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the type is the one in the header, as the caller guarantees.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>(stringify!($name)) };
                        *symbol?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// Functions of RFC 2744.
    Functions:
    gss_import_name(*mut Status, *const Buffer, *const Oid, *mut Handle) -> Status;
    gss_display_name(*mut Status, Handle, *mut Buffer, *mut *const Oid) -> Status;
    gss_release_name(*mut Status, *mut Handle) -> Status;
    gss_release_buffer(*mut Status, *mut Buffer) -> Status;
    gss_display_status(*mut Status, Status, c_int, *const Oid, *mut u32, *mut Buffer) -> Status;
    gss_acquire_cred(*mut Status, Handle, u32, *const OidSet, c_int, *mut Handle, *mut Handle, *mut u32) -> Status;
    gss_inquire_cred(*mut Status, Handle, *mut Handle, *mut u32, *mut c_int, *mut Handle) -> Status;
    gss_release_cred(*mut Status, *mut Handle) -> Status;
    gss_init_sec_context(
        *mut Status, Handle, *mut Handle, Handle, *const Oid, u32, u32, *const c_void, *const Buffer, *mut *const Oid,
        *mut Buffer, *mut u32, *mut u32
    ) -> Status;
    gss_inquire_context(
        *mut Status, Handle, *mut Handle, *mut Handle, *mut u32, *mut *const Oid, *mut u32, *mut c_int, *mut c_int
    ) -> Status;
    gss_delete_sec_context(*mut Status, *mut Handle, *mut Buffer) -> Status;
    gss_wrap(*mut Status, Handle, c_int, u32, *const Buffer, *mut c_int, *mut Buffer) -> Status;
    gss_unwrap(*mut Status, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut u32) -> Status;
}

functions! {
    /// Extension of MIT Kerberos, and of Heimdal since version 8, that obtains tickets with a keytab and stores them in
    /// a given cache.
    Stores:
    gss_acquire_cred_from(
        *mut Status, Handle, u32, *const OidSet, c_int, *const KeyValueSet, *mut Handle, *mut Handle, *mut u32
    ) -> Status;
}

functions! {
    /// Functions that destroy a ticket cache. Releasing credentials does not destroy their cache.
    Caches:
    krb5_init_context(*mut Handle) -> i32;
    krb5_free_context(Handle) -> ();
    krb5_cc_resolve(Handle, *const c_char, *mut Handle) -> i32;
    krb5_cc_destroy(Handle, Handle) -> i32;
}

/// The loaded library.
pub(super) struct Kerberos {
    functions: Functions,
    stores: Option<Stores>,
    caches: Option<Caches>,
    name: String,
    /// The library is never unloaded, because it may run its own threads and handlers.
    _library: Library,
}

impl fmt::Debug for Kerberos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kerberos").field(&self.name).finish()
    }
}

/// An error that the Kerberos library reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GssError {
    major: Status,
    minor: Status,
    text: String,
}

impl fmt::Display for GssError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In Kerberos' headers and manuals these error numbers are negative.
        write!(f, "{} (major {:#x}, minor {})", self.text, self.major, self.minor.cast_signed())
    }
}

impl GssError {
    pub(super) fn minor(&self) -> i32 {
        self.minor.cast_signed()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Creates an error that this module detected.
    fn local(text: impl Into<String>) -> Self {
        Self { major: 0, minor: 0, text: text.into() }
    }
}

impl Kerberos {
    /// Returns the library set by `SAMSARROW_GSSAPI`, otherwise the system's library. It is loaded by the first call.
    ///
    /// # Errors
    /// Returns the reason why the library cannot be loaded, and the package to install.
    pub(super) fn load() -> Result<&'static Self, String> {
        static LOADED: Mutex<Option<&'static Kerberos>> = Mutex::new(None);
        let mut loaded = lock(&LOADED);
        if let Some(kerberos) = *loaded {
            return Ok(kerberos);
        }
        let override_name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let kerberos = &*Box::leak(Box::new(Self::open(override_name)?));
        *loaded = Some(kerberos);
        Ok(kerberos)
    }

    fn open(override_name: Option<OsString>) -> Result<Self, String> {
        let is_override = override_name.is_some();
        let Some(name) = override_name.or_else(|| DEFAULT_LIBRARY.map(OsString::from)) else {
            return Err(format!(
                "no GSSAPI library is known for this system: set the environment variable {VARIABLE} to the path of one"
            ));
        };
        let display_name = name.to_string_lossy().into_owned();
        // SAFETY: runs the initialisers of the system's Kerberos library, or of the one the user configured.
        let library = unsafe { Library::new(&name) }.map_err(|error| match is_override {
            true => format!("{display_name}, set by the environment variable {VARIABLE}, cannot be loaded: {error}"),
            false => format!("the Kerberos library {display_name} cannot be loaded: {INSTALL_HINT} ({error})"),
        })?;
        // SAFETY: the types are those of RFC 2744 and of MIT's headers, and the library is never unloaded.
        let (functions, stores, caches) =
            unsafe { (Functions::load(&library), Stores::load(&library).ok(), Caches::load(&library).ok()) };
        let functions = functions.map_err(|error| format!("{display_name} is no GSSAPI library: {error}"))?;
        Ok(Self { functions, stores, caches, name: display_name, _library: library })
    }

    /// Returns true if the library can log in with a keytab.
    pub(super) fn supports_keytabs(&self) -> bool {
        self.stores.is_some()
    }

    /// Returns the name under which the library was loaded.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns an error if the status of a call contains error bits.
    fn check(&self, major: Status, minor: Status) -> Result<(), GssError> {
        if major & ERRORS == 0 {
            return Ok(());
        }
        let (general, specific) = (self.text(major, 1), self.text(minor, 2));
        // The text of the mechanism is more specific than the general text, which is used only if the mechanism has
        // none.
        let text = match minor {
            0 => general,
            _ if specific.is_empty() => general,
            _ => specific,
        };
        Err(GssError { major, minor, text })
    }

    fn text(&self, status: Status, kind: c_int) -> String {
        let mechanism = Oid::new(KERBEROS);
        let (mut more, mut texts) = (0, Vec::new());
        for _ in 0..MAX_TEXTS {
            let (mut minor, mut out) = (0, OutputBuffer::new(self));
            // SAFETY: all pointers are to locals that outlive the call.
            let major = unsafe {
                (self.functions.gss_display_status)(&mut minor, status, kind, &mechanism, &mut more, &mut out.buffer)
            };
            if major & ERRORS != 0 {
                break;
            }
            texts.push(String::from_utf8_lossy(out.bytes()).into_owned());
            if more == 0 {
                break;
            }
        }
        texts.retain(|text| !text.is_empty());
        texts.join("; ")
    }

    /// Converts the text of a principal to a name of the library.
    fn principal(&'static self, principal: &str) -> Result<Name, GssError> {
        self.import(principal, &Oid::new(PRINCIPAL))
    }

    /// Returns the name of a service on a host. The library may look up the host in DNS (`dns_canonicalize_hostname`).
    pub(super) fn service(&'static self, service: &str, host: &str) -> Result<Name, GssError> {
        self.import(&format!("{service}@{host}"), &Oid::new(SERVICE_AT_HOST))
    }

    fn import(&'static self, text: &str, kind: &Oid) -> Result<Name, GssError> {
        // The library would truncate the name at a NUL character.
        if text.contains('\0') {
            return Err(GssError::local("a name must not contain a NUL character"));
        }
        let mut name = Name { kerberos: self, handle: null_mut() };
        let mut minor = 0;
        // SAFETY: all pointers outlive the call; the text is copied.
        let major = unsafe {
            (self.functions.gss_import_name)(&mut minor, &Buffer::borrowing(text.as_bytes()), kind, &mut name.handle)
        };
        self.check(major, minor)?;
        Ok(name)
    }
}

const VARIABLE: &str = "SAMSARROW_GSSAPI";
#[cfg(target_os = "macos")]
const DEFAULT_LIBRARY: Option<&str> = Some("/System/Library/Frameworks/GSS.framework/GSS");
#[cfg(all(unix, not(target_os = "macos")))]
const DEFAULT_LIBRARY: Option<&str> = Some("libgssapi_krb5.so.2");
#[cfg(not(unix))]
const DEFAULT_LIBRARY: Option<&str> = None;
const INSTALL_HINT: &str = "install the package libgssapi-krb5-2 (Debian, Ubuntu), krb5-libs (Fedora, Red Hat, Amazon Linux, \
                       Alpine) or krb5 (SUSE, Arch), or set the environment variable SAMSARROW_GSSAPI to its path";

/// Bytes allocated by the library. They are released on drop.
struct OutputBuffer<'a> {
    kerberos: &'a Kerberos,
    buffer: Buffer,
}

impl<'a> OutputBuffer<'a> {
    fn new(kerberos: &'a Kerberos) -> Self {
        Self { kerberos, buffer: Buffer::EMPTY }
    }

    fn bytes(&self) -> &[u8] {
        if self.buffer.value.is_null() || self.buffer.length == 0 {
            return &[];
        }
        // SAFETY: the library filled the buffer, which is valid until it is released with this value.
        unsafe { std::slice::from_raw_parts(self.buffer.value.cast(), self.buffer.length) }
    }
}

impl Drop for OutputBuffer<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty, or was allocated by the library.
        unsafe { (self.kerberos.functions.gss_release_buffer)(&mut minor, &mut self.buffer) };
    }
}

/// Name of a principal or service.
pub(super) struct Name {
    kerberos: &'static Kerberos,
    handle: Handle,
}

// SAFETY: the library's names are not bound to a thread.
unsafe impl Send for Name {}

impl Name {
    fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut out) = (0, OutputBuffer::new(self.kerberos));
        // SAFETY: the name was created by the library; the other pointers are to locals.
        let major =
            unsafe { (self.kerberos.functions.gss_display_name)(&mut minor, self.handle, &mut out.buffer, null_mut()) };
        self.kerberos.check(major, minor)?;
        Ok(String::from_utf8_lossy(out.bytes()).into_owned())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name was created by the library or is null, which is allowed.
        unsafe { (self.kerberos.functions.gss_release_name)(&mut minor, &mut self.handle) };
    }
}

/// Tickets of a principal.
pub(super) struct Credentials {
    kerberos: &'static Kerberos,
    handle: Handle,
    /// Private ticket cache that is destroyed together with these credentials, if any.
    cache: Option<CString>,
}

// SAFETY: the library locks credentials on use (RFC 2744 leaves this open; MIT and Apple both do).
unsafe impl Send for Credentials {}
// SAFETY: as above.
unsafe impl Sync for Credentials {}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Obtains new tickets from the KDC with the keys in a keytab, and stores them in a private cache. Earlier tickets
    /// in a shared cache would hide a missing or wrong keytab. Without a principal, the first principal in the keytab
    /// is used.
    ///
    /// # Errors
    /// Fails if the KDC cannot be reached or rejects the request, or if the keytab lacks the key.
    pub(super) fn from_keytab(
        kerberos: &'static Kerberos,
        principal: Option<&str>,
        keytab: &Path,
    ) -> Result<Self, GssError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Some(stores) = &kerberos.stores else {
            return Err(GssError::local("the library does not support keytabs"));
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cache = CString::new(format!("MEMORY:samsarrow-{}-{number}", std::process::id()));
        let keytab = CString::new([b"FILE:", keytab.as_os_str().as_encoded_bytes()].concat());
        let (Ok(cache), Ok(keytab)) = (cache, keytab) else {
            return Err(GssError::local("the keytab's path must not contain a NUL character"));
        };
        let name = principal.map(|principal| kerberos.principal(principal)).transpose()?;
        let pairs = [
            KeyValue { key: c"client_keytab".as_ptr(), value: keytab.as_ptr() },
            KeyValue { key: c"ccache".as_ptr(), value: cache.as_ptr() },
        ];
        let store = KeyValueSet { count: pairs.len() as u32, elements: pairs.as_ptr() };
        let (mechanism, mut minor) = (Oid::new(KERBEROS), 0);
        let mechanisms = OidSet { count: 1, elements: &mechanism };
        // This value is created before the call, so that dropping it destroys the tickets that a failed attempt leaves
        // in the cache.
        let mut credentials = Self { kerberos, handle: null_mut(), cache: Some(cache.clone()) };
        // SAFETY: all pointers outlive the call; the library copies the values it keeps.
        let major = unsafe {
            (stores.gss_acquire_cred_from)(
                &mut minor,
                name.as_ref().map_or(null_mut(), |name| name.handle),
                INDEFINITE,
                &mechanisms,
                INITIATE,
                &store,
                &mut credentials.handle,
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        Ok(credentials)
    }

    /// Returns the credentials in the user's ticket cache: those of the given principal, or of the cache's default
    /// principal.
    ///
    /// # Errors
    /// Fails if the cache does not exist or has no tickets of that principal.
    pub(super) fn from_user_cache(kerberos: &'static Kerberos, principal: Option<&str>) -> Result<Self, GssError> {
        let name = principal.map(|principal| kerberos.principal(principal)).transpose()?;
        let (mechanism, mut minor) = (Oid::new(KERBEROS), 0);
        let mechanisms = OidSet { count: 1, elements: &mechanism };
        let mut credentials = Self { kerberos, handle: null_mut(), cache: None };
        // SAFETY: all pointers outlive the call.
        let major = unsafe {
            (kerberos.functions.gss_acquire_cred)(
                &mut minor,
                name.as_ref().map_or(null_mut(), |name| name.handle),
                INDEFINITE,
                &mechanisms,
                INITIATE,
                &mut credentials.handle,
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        Ok(credentials)
    }

    /// Returns the remaining lifetime of the credentials; `None` if it is unlimited.
    ///
    /// # Errors
    /// Fails if the library returns an error, for example because it reads the cache only now.
    pub(super) fn lifetime(&self) -> Result<Option<Duration>, GssError> {
        let (mut minor, mut remaining) = (0, 0);
        // SAFETY: the credentials were created by the library; the other pointers are to locals, or null, which is
        // allowed.
        let major = unsafe {
            (self.kerberos.functions.gss_inquire_cred)(
                &mut minor,
                self.handle,
                null_mut(),
                &mut remaining,
                null_mut(),
                null_mut(),
            )
        };
        self.kerberos.check(major, minor)?;
        Ok((remaining != INDEFINITE).then(|| Duration::from_secs(u64::from(remaining))))
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credentials were created by the library or are null, and have no other user.
        unsafe { (self.kerberos.functions.gss_release_cred)(&mut minor, &mut self.handle) };
        if let (Some(caches), Some(name)) = (&self.kerberos.caches, &self.cache) {
            caches.destroy(name);
        }
    }
}

impl Caches {
    /// Destroys a ticket cache and ignores errors.
    fn destroy(&self, name: &CStr) {
        let (mut context, mut cache) = (null_mut(), null_mut());
        // SAFETY: the context is created and freed here, and destroying the cache closes it.
        unsafe {
            if (self.krb5_init_context)(&mut context) != 0 {
                return;
            }
            if (self.krb5_cc_resolve)(context, name.as_ptr(), &mut cache) == 0 {
                (self.krb5_cc_destroy)(context, cache);
            }
            (self.krb5_free_context)(context);
        }
    }
}

/// Security context between the client and a service, in which each side authenticates the other.
pub(super) struct Context {
    credentials: Arc<Credentials>,
    service: Name,
    handle: Handle,
    is_established: bool,
}

// SAFETY: used by one thread at a time, through `&mut`.
unsafe impl Send for Context {}

impl Context {
    pub(super) fn new(credentials: Arc<Credentials>, service: Name) -> Self {
        Self { credentials, service, handle: null_mut(), is_established: false }
    }

    /// Returns true once client and service have authenticated each other.
    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns the token to send in response to the service's token; the first call passes an empty token. Requests the
    /// service ticket from the KDC unless the ticket is in the cache.
    ///
    /// # Errors
    /// Fails if no ticket is available, if the token is invalid, or if the service did not authenticate itself.
    pub(super) fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, GssError> {
        let kerberos = self.credentials.kerberos;
        let (mut minor, mut flags, mut out) = (0, 0, OutputBuffer::new(kerberos));
        let (mechanism, input) = (Oid::new(KERBEROS), Buffer::borrowing(token));
        // SAFETY: the handles were created by the library and are live; the other pointers are to locals, or null,
        // which is allowed.
        let major = unsafe {
            (kerberos.functions.gss_init_sec_context)(
                &mut minor,
                self.credentials.handle,
                &mut self.handle,
                self.service.handle,
                &mechanism,
                MUTUAL | SEQUENCE | INTEGRITY,
                0,
                null(),
                if self.handle.is_null() { null() } else { &input },
                null_mut(),
                &mut out.buffer,
                &mut flags,
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        self.is_established = major & CONTINUE_NEEDED == 0;
        if self.is_established && flags & MUTUAL == 0 {
            return Err(GssError::local("the service did not authenticate itself"));
        }
        Ok(out.bytes().to_vec())
    }

    /// Returns the name of the client's principal.
    ///
    /// # Errors
    /// Fails if the library returns an error.
    pub(super) fn initiator(&self) -> Result<String, GssError> {
        let kerberos = self.credentials.kerberos;
        let mut name = Name { kerberos, handle: null_mut() };
        let mut minor = 0;
        // SAFETY: the handles were created by the library; null is allowed for values that are not needed.
        let major = unsafe {
            (kerberos.functions.gss_inquire_context)(
                &mut minor,
                self.handle,
                &mut name.handle,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        name.text()
    }

    /// Returns the content of a message that the service protected.
    ///
    /// # Errors
    /// Fails if the message was modified.
    pub(super) fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, GssError> {
        let kerberos = self.credentials.kerberos;
        let (mut minor, mut out) = (0, OutputBuffer::new(kerberos));
        // SAFETY: the context was created by the library; the other pointers are to locals, or null, which is allowed.
        let major = unsafe {
            (kerberos.functions.gss_unwrap)(
                &mut minor,
                self.handle,
                &Buffer::borrowing(token),
                &mut out.buffer,
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        Ok(out.bytes().to_vec())
    }

    /// Protects the integrity of a message for the service. The message is not encrypted.
    ///
    /// # Errors
    /// Fails if the library returns an error.
    pub(super) fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        let kerberos = self.credentials.kerberos;
        let (mut minor, mut out) = (0, OutputBuffer::new(kerberos));
        // SAFETY: the context was created by the library; the other pointers are to locals, or null, which is allowed.
        let major = unsafe {
            (kerberos.functions.gss_wrap)(
                &mut minor,
                self.handle,
                0,
                0,
                &Buffer::borrowing(message),
                null_mut(),
                &mut out.buffer,
            )
        };
        kerberos.check(major, minor)?;
        Ok(out.bytes().to_vec())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        let mut minor = 0;
        // SAFETY: the context was created by the library and has no other user.
        unsafe {
            (self.credentials.kerberos.functions.gss_delete_sec_context)(&mut minor, &mut self.handle, null_mut())
        };
    }
}

/// Removes Kerberos' prefix `FILE:` from the path of a keytab.
pub(super) fn keytab_path(path: &Path) -> &Path {
    path.to_str().and_then(|text| text.strip_prefix("FILE:")).map_or(path, |rest| Path::new(OsStr::new(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_is_reported_with_install_hint() {
        let error = Kerberos::open(Some("/nowhere/libgssapi_krb5.so.2".into())).unwrap_err();
        assert!(error.starts_with("/nowhere/libgssapi_krb5.so.2, set by the environment variable SAMSARROW_GSSAPI"));
        assert!(INSTALL_HINT.contains("libgssapi-krb5-2") && INSTALL_HINT.contains("krb5-libs"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn rejects_other_libraries() {
        let error = Kerberos::open(Some("libc.so.6".into())).unwrap_err();
        assert!(error.starts_with("libc.so.6 is no GSSAPI library"), "{error}");
    }

    #[test]
    fn error_numbers_are_negative_as_in_manuals() {
        let fault = GssError { major: 0x000d_0000, minor: 0x96c7_3a07, text: "Server not found".into() };
        assert_eq!(fault.to_string(), "Server not found (major 0xd0000, minor -1765328377)");
    }

    #[test]
    fn keytab_path_accepts_file_prefix() {
        assert_eq!(keytab_path(Path::new("FILE:/etc/k")), Path::new("/etc/k"));
        assert_eq!(keytab_path(Path::new("/etc/k")), Path::new("/etc/k"));
    }
}
