//! The system's Kerberos library, loaded when a client first logs in by it, behind safe types.
//!
//! It is no dependency of the wheel: distributions patch it and configure it (`krb5.conf`), and a copy of ours would
//! know neither. MIT's library and Apple's GSS framework share the C interface of RFC 2744.
//!
//! One file on purpose, however long: it holds all that is unsafe here, so that this can be read in one go.
#![allow(unsafe_code, reason = "a library loaded at run time is called through raw pointers")]

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libloading::Library;

type Handle = *mut c_void;
type Status = u32;

/// An object identifier. Apple packs it on Intel, as its own header says.
#[repr(C)]
#[cfg_attr(all(target_os = "macos", target_arch = "x86_64"), repr(packed(2)))]
struct Oid {
    length: u32,
    elements: *const u8,
}

impl Oid {
    const fn of(bytes: &'static [u8]) -> Self {
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

    /// Of bytes that the library only reads, and that must live while it does.
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

#[repr(C)]
struct Pair {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct Pairs {
    count: u32,
    elements: *const Pair,
}

// RFC 1964 and RFC 2743.
static KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
static PRINCIPAL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01];
static SERVICE_AT_HOST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x04];

const INITIATE: c_int = 1;
const INDEFINITE: u32 = u32::MAX;
const MUTUAL: u32 = 2;
const SEQUENCE: u32 = 8;
const INTEGRITY: u32 = 32;
/// What a status has in these bits is an error.
const ERRORS: Status = 0xffff_0000;
const CONTINUE_NEEDED: Status = 1;
/// Texts of one status; more is a library that does not end.
const TEXTS: usize = 8;

/// Functions by their names in the library.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        $(#[$doc])*
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// # Safety
            /// The library's functions are those of these names in MIT's headers, and it is never unloaded.
            unsafe fn of(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the type is the one in the header, as the caller promises.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> $result>(stringify!($name)) };
                        *symbol?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// RFC 2744.
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
    /// MIT's, and Heimdal's since 8: tickets by a keytab and into a cache that the caller names.
    Stores:
    gss_acquire_cred_from(
        *mut Status, Handle, u32, *const OidSet, c_int, *const Pairs, *mut Handle, *mut Handle, *mut u32
    ) -> Status;
}

functions! {
    /// What wipes a cache of tickets, which releasing credentials does not.
    Caches:
    krb5_init_context(*mut Handle) -> i32;
    krb5_free_context(Handle) -> ();
    krb5_cc_resolve(Handle, *const c_char, *mut Handle) -> i32;
    krb5_cc_destroy(Handle, Handle) -> i32;
}

/// The library.
pub(super) struct Kerberos {
    functions: Functions,
    stores: Option<Stores>,
    caches: Option<Caches>,
    name: String,
    /// Never unloaded: it may have threads and handlers of its own.
    _library: Library,
}

impl fmt::Debug for Kerberos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kerberos").field(&self.name).finish()
    }
}

/// What the library says went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    major: Status,
    minor: Status,
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Kerberos' own numbers are negative in its headers and manuals.
        write!(f, "{} (major {:#x}, minor {})", self.text, self.major, self.minor.cast_signed())
    }
}

impl Fault {
    pub(super) fn minor(&self) -> i32 {
        self.minor.cast_signed()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Of ours.
    fn own(text: impl Into<String>) -> Self {
        Self { major: 0, minor: 0, text: text.into() }
    }
}

impl Kerberos {
    /// The library that `SAMSARROW_GSSAPI` names, or the system's; loaded once.
    ///
    /// # Errors
    /// Why it cannot be loaded, and what to install.
    pub(super) fn load() -> Result<&'static Self, String> {
        static LOADED: Mutex<Option<&'static Kerberos>> = Mutex::new(None);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kerberos) = *loaded {
            return Ok(kerberos);
        }
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let kerberos = &*Box::leak(Box::new(Self::open(named)?));
        *loaded = Some(kerberos);
        Ok(kerberos)
    }

    fn open(named: Option<OsString>) -> Result<Self, String> {
        let by_user = named.is_some();
        let Some(name) = named.or_else(|| SYSTEM.map(OsString::from)) else {
            return Err(format!(
                "this system has no GSSAPI library that is known: set the environment variable {VARIABLE} to the path of one"
            ));
        };
        let shown = name.to_string_lossy().into_owned();
        // SAFETY: runs the initialisers of the system's Kerberos library, or of what the user trusts as such.
        let library = unsafe { Library::new(&name) }.map_err(|error| match by_user {
            true => format!("{shown}, which the environment variable {VARIABLE} names, cannot be loaded: {error}"),
            false => format!("the Kerberos library {shown} cannot be loaded: {INSTALL} ({error})"),
        })?;
        // SAFETY: the types are those of RFC 2744 and of MIT's headers, and the library is kept for ever.
        let (functions, stores, caches) =
            unsafe { (Functions::of(&library), Stores::of(&library).ok(), Caches::of(&library).ok()) };
        let functions = functions.map_err(|error| format!("{shown} is no GSSAPI library: {error}"))?;
        Ok(Self { functions, stores, caches, name: shown, _library: library })
    }

    /// Whether it can log in with a keytab.
    pub(super) fn takes_keytabs(&self) -> bool {
        self.stores.is_some()
    }

    /// What it was loaded by.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A call's outcome.
    fn check(&self, major: Status, minor: Status) -> Result<(), Fault> {
        if major & ERRORS == 0 {
            return Ok(());
        }
        let (general, own) = (self.text(major, 1), self.text(minor, 2));
        // The mechanism's text says more; the general one only where there is none.
        let text = match minor {
            0 => general,
            _ if own.is_empty() => general,
            _ => own,
        };
        Err(Fault { major, minor, text })
    }

    fn text(&self, status: Status, kind: c_int) -> String {
        let mechanism = Oid::of(KERBEROS);
        let (mut more, mut texts) = (0, Vec::new());
        for _ in 0..TEXTS {
            let (mut minor, mut out) = (0, Out::new(self));
            // SAFETY: every pointer is to a local that outlives the call.
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

    /// The name of a principal.
    fn principal(&'static self, principal: &str) -> Result<Name, Fault> {
        self.import(principal, &Oid::of(PRINCIPAL))
    }

    /// The name of a service at a host, which the library may look up (`dns_canonicalize_hostname`).
    pub(super) fn service(&'static self, service: &str, host: &str) -> Result<Name, Fault> {
        self.import(&format!("{service}@{host}"), &Oid::of(SERVICE_AT_HOST))
    }

    fn import(&'static self, text: &str, kind: &Oid) -> Result<Name, Fault> {
        // It would be cut there.
        if text.contains('\0') {
            return Err(Fault::own("a name must not contain a NUL character"));
        }
        let mut name = Name { kerberos: self, handle: null_mut() };
        let mut minor = 0;
        // SAFETY: every pointer is to what outlives the call; the text is copied.
        let major = unsafe {
            (self.functions.gss_import_name)(&mut minor, &Buffer::of(text.as_bytes()), kind, &mut name.handle)
        };
        self.check(major, minor)?;
        Ok(name)
    }
}

const VARIABLE: &str = "SAMSARROW_GSSAPI";
#[cfg(target_os = "macos")]
const SYSTEM: Option<&str> = Some("/System/Library/Frameworks/GSS.framework/GSS");
#[cfg(all(unix, not(target_os = "macos")))]
const SYSTEM: Option<&str> = Some("libgssapi_krb5.so.2");
#[cfg(not(unix))]
const SYSTEM: Option<&str> = None;
const INSTALL: &str = "install the package libgssapi-krb5-2 (Debian, Ubuntu), krb5-libs (Fedora, Red Hat, Amazon Linux, \
                       Alpine) or krb5 (SUSE, Arch), or set the environment variable SAMSARROW_GSSAPI to its path";

/// Bytes that the library allocated, which are copied and given back.
struct Out<'a> {
    kerberos: &'a Kerberos,
    buffer: Buffer,
}

impl<'a> Out<'a> {
    fn new(kerberos: &'a Kerberos) -> Self {
        Self { kerberos, buffer: Buffer::EMPTY }
    }

    fn bytes(&self) -> &[u8] {
        if self.buffer.value.is_null() || self.buffer.length == 0 {
            return &[];
        }
        // SAFETY: the library filled the buffer, and it lives until it is released with this value.
        unsafe { std::slice::from_raw_parts(self.buffer.value.cast(), self.buffer.length) }
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the buffer is empty, or the library's own.
        unsafe { (self.kerberos.functions.gss_release_buffer)(&mut minor, &mut self.buffer) };
    }
}

/// Who somebody is.
pub(super) struct Name {
    kerberos: &'static Kerberos,
    handle: Handle,
}

// SAFETY: nothing in the library's names belongs to a thread.
unsafe impl Send for Name {}

impl Name {
    fn text(&self) -> Result<String, Fault> {
        let (mut minor, mut out) = (0, Out::new(self.kerberos));
        // SAFETY: the name is one of the library's, the other pointers are to locals.
        let major =
            unsafe { (self.kerberos.functions.gss_display_name)(&mut minor, self.handle, &mut out.buffer, null_mut()) };
        self.kerberos.check(major, minor)?;
        Ok(String::from_utf8_lossy(out.bytes()).into_owned())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name is one of the library's, or none, which it takes too.
        unsafe { (self.kerberos.functions.gss_release_name)(&mut minor, &mut self.handle) };
    }
}

/// Tickets, and who holds them.
pub(super) struct Credentials {
    kerberos: &'static Kerberos,
    handle: Handle,
    /// The cache that they are alone in.
    cache: Option<CString>,
}

// SAFETY: the library locks credentials where it uses them (RFC 2744 leaves it open; MIT and Apple both do).
unsafe impl Send for Credentials {}
// SAFETY: as above.
unsafe impl Sync for Credentials {}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl Credentials {
    /// New tickets from the KDC by the keys in a file, in a cache of their own: in a shared one, tickets of before would
    /// do, and a keytab that is missing or wrong would never show. Without a principal, the first of the file.
    ///
    /// # Errors
    /// The KDC cannot be reached or refuses, or the file lacks the key.
    pub(super) fn by_keytab(
        kerberos: &'static Kerberos,
        principal: Option<&str>,
        keytab: &Path,
    ) -> Result<Self, Fault> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Some(stores) = &kerberos.stores else {
            return Err(Fault::own("the library takes no keytabs"));
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cache = CString::new(format!("MEMORY:samsarrow-{}-{number}", std::process::id()));
        let keytab = CString::new([b"FILE:", keytab.as_os_str().as_encoded_bytes()].concat());
        let (Ok(cache), Ok(keytab)) = (cache, keytab) else {
            return Err(Fault::own("the keytab's path must not contain a NUL character"));
        };
        let name = principal.map(|principal| kerberos.principal(principal)).transpose()?;
        let pairs = [
            Pair { key: c"client_keytab".as_ptr(), value: keytab.as_ptr() },
            Pair { key: c"ccache".as_ptr(), value: cache.as_ptr() },
        ];
        let store = Pairs { count: pairs.len() as u32, elements: pairs.as_ptr() };
        let (mechanism, mut minor) = (Oid::of(KERBEROS), 0);
        let mechanisms = OidSet { count: 1, elements: &mechanism };
        // What a failed attempt left in the cache is wiped with this value.
        let mut all = Self { kerberos, handle: null_mut(), cache: Some(cache.clone()) };
        // SAFETY: every pointer is to what outlives the call; the library copies what it keeps.
        let major = unsafe {
            (stores.gss_acquire_cred_from)(
                &mut minor,
                name.as_ref().map_or(null_mut(), |name| name.handle),
                INDEFINITE,
                &mechanisms,
                INITIATE,
                &store,
                &mut all.handle,
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        Ok(all)
    }

    /// What the user's ticket cache holds: of a principal, or of the one that it is for.
    ///
    /// # Errors
    /// There is no cache, or nothing for that principal in it.
    pub(super) fn of_user(kerberos: &'static Kerberos, principal: Option<&str>) -> Result<Self, Fault> {
        let name = principal.map(|principal| kerberos.principal(principal)).transpose()?;
        let (mechanism, mut minor) = (Oid::of(KERBEROS), 0);
        let mechanisms = OidSet { count: 1, elements: &mechanism };
        let mut all = Self { kerberos, handle: null_mut(), cache: None };
        // SAFETY: every pointer is to what outlives the call.
        let major = unsafe {
            (kerberos.functions.gss_acquire_cred)(
                &mut minor,
                name.as_ref().map_or(null_mut(), |name| name.handle),
                INDEFINITE,
                &mechanisms,
                INITIATE,
                &mut all.handle,
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        Ok(all)
    }

    /// How much longer they hold; `None` if for ever.
    ///
    /// # Errors
    /// Those of the library, which may look into the cache only now.
    pub(super) fn lifetime(&self) -> Result<Option<Duration>, Fault> {
        let (mut minor, mut left) = (0, 0);
        // SAFETY: the credentials are the library's, the other pointers are to locals or null, which it takes.
        let major = unsafe {
            (self.kerberos.functions.gss_inquire_cred)(
                &mut minor,
                self.handle,
                null_mut(),
                &mut left,
                null_mut(),
                null_mut(),
            )
        };
        self.kerberos.check(major, minor)?;
        Ok((left != INDEFINITE).then(|| Duration::from_secs(u64::from(left))))
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the credentials are the library's, or none, and nobody else uses them.
        unsafe { (self.kerberos.functions.gss_release_cred)(&mut minor, &mut self.handle) };
        if let (Some(caches), Some(name)) = (&self.kerberos.caches, &self.cache) {
            caches.destroy(name);
        }
    }
}

impl Caches {
    /// Wipes a cache; there is nothing to do about one that cannot be.
    fn destroy(&self, name: &CStr) {
        let (mut context, mut cache) = (null_mut(), null_mut());
        // SAFETY: the library makes the context, which ends here, and the cache is closed by being destroyed.
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

/// A conversation with a service, in which each learns who the other is.
pub(super) struct Context {
    credentials: Arc<Credentials>,
    service: Name,
    handle: Handle,
    done: bool,
}

// SAFETY: it is used by one thread at a time, through `&mut`.
unsafe impl Send for Context {}

impl Context {
    pub(super) fn new(credentials: Arc<Credentials>, service: Name) -> Self {
        Self { credentials, service, handle: null_mut(), done: false }
    }

    /// Whether each knows who the other is.
    pub(super) fn done(&self) -> bool {
        self.done
    }

    /// What is to be sent after the service's token, which is empty at first. Asks the KDC for the service's ticket
    /// unless it is in the cache.
    ///
    /// # Errors
    /// There is no ticket, the token is not what it should be, or the service does not prove who it is.
    pub(super) fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, Fault> {
        let kerberos = self.credentials.kerberos;
        let (mut minor, mut flags, mut out) = (0, 0, Out::new(kerberos));
        let (mechanism, input) = (Oid::of(KERBEROS), Buffer::of(token));
        // SAFETY: the handles are the library's and live; the other pointers are to locals, or null, which it takes.
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
        self.done = major & CONTINUE_NEEDED == 0;
        if self.done && flags & MUTUAL == 0 {
            return Err(Fault::own("the service did not prove who it is"));
        }
        Ok(out.bytes().to_vec())
    }

    /// Who logs in.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn initiator(&self) -> Result<String, Fault> {
        let kerberos = self.credentials.kerberos;
        let mut name = Name { kerberos, handle: null_mut() };
        let mut minor = 0;
        // SAFETY: the handles are the library's; null is taken for what nobody wants to know.
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

    /// What the service has protected.
    ///
    /// # Errors
    /// It was changed on its way.
    pub(super) fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, Fault> {
        let kerberos = self.credentials.kerberos;
        let (mut minor, mut out) = (0, Out::new(kerberos));
        // SAFETY: the context is the library's, the other pointers are to locals, or null, which it takes.
        let major = unsafe {
            (kerberos.functions.gss_unwrap)(
                &mut minor,
                self.handle,
                &Buffer::of(token),
                &mut out.buffer,
                null_mut(),
                null_mut(),
            )
        };
        kerberos.check(major, minor)?;
        Ok(out.bytes().to_vec())
    }

    /// The same for the service: protected from changes, not from readers.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let kerberos = self.credentials.kerberos;
        let (mut minor, mut out) = (0, Out::new(kerberos));
        // SAFETY: the context is the library's, the other pointers are to locals, or null, which it takes.
        let major = unsafe {
            (kerberos.functions.gss_wrap)(
                &mut minor,
                self.handle,
                0,
                0,
                &Buffer::of(message),
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
        // SAFETY: the context is the library's, and nobody else uses it.
        unsafe {
            (self.credentials.kerberos.functions.gss_delete_sec_context)(&mut minor, &mut self.handle, null_mut())
        };
    }
}

/// A file's path, without the prefix that Kerberos writes before it.
pub(super) fn keytab_path(path: &Path) -> &Path {
    path.to_str().and_then(|text| text.strip_prefix("FILE:")).map_or(path, |rest| Path::new(OsStr::new(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_what_to_install() {
        let error = Kerberos::open(Some("/nowhere/libgssapi_krb5.so.2".into())).unwrap_err();
        assert!(error.starts_with("/nowhere/libgssapi_krb5.so.2, which the environment variable SAMSARROW_GSSAPI"));
        assert!(INSTALL.contains("libgssapi-krb5-2") && INSTALL.contains("krb5-libs"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_of_something_else_is_refused() {
        let error = Kerberos::open(Some("libc.so.6".into())).unwrap_err();
        assert!(error.starts_with("libc.so.6 is no GSSAPI library"), "{error}");
    }

    #[test]
    fn a_fault_shows_its_numbers_as_manuals_do() {
        let fault = Fault { major: 0x000d_0000, minor: 0x96c7_3a07, text: "Server not found".into() };
        assert_eq!(fault.to_string(), "Server not found (major 0xd0000, minor -1765328377)");
    }

    #[test]
    fn keytabs_may_be_named_as_kerberos_does() {
        assert_eq!(keytab_path(Path::new("FILE:/etc/k")), Path::new("/etc/k"));
        assert_eq!(keytab_path(Path::new("/etc/k")), Path::new("/etc/k"));
    }
}
