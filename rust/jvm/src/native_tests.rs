//! Tests that panics in native functions become Java exceptions. The tests start a JVM in this process and make each
//! native function panic.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;

use jni::sys::{JNI_FALSE, JNI_VERSION_1_8, JavaVMInitArgs, JavaVMOption};
use jni::{JavaVM, jni_sig};

use super::*;

thread_local! {
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Panics if the current test has requested a panic.
pub(super) fn panic_if_requested() {
    assert!(!PANICS.get(), "on purpose");
}

/// Name of a native function, and a closure that calls it.
type Call<'a> = (&'a str, &'a dyn Fn(&Env<'_>));
type Create = unsafe extern "system" fn(*mut *mut jni::sys::JavaVM, *mut *mut c_void, *mut c_void) -> jint;

/// Starts a JVM that has the exception class. Returns `None` if Java is not installed.
fn jvm() -> Option<JavaVM> {
    let output = Command::new("java").args(["-XshowSettings:properties", "-version"]).output().ok()?;
    let output = String::from_utf8_lossy(&output.stderr);
    let home = output.lines().find_map(|line| line.trim().strip_prefix("java.home = "))?;
    let classes = std::env::temp_dir().join(format!("samsarrow-classes-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../jvm/src/main/java/io/github/samsarrow/spark/SamsarrowException.java");
    let compiled = Command::new("javac").arg("-d").arg(&classes).arg(source).status().ok()?;
    assert!(compiled.success());
    let mut path = CString::new(format!("-Djava.class.path={}", classes.display())).unwrap().into_bytes_with_nul();
    let mut option = JavaVMOption { optionString: path.as_mut_ptr().cast(), extraInfo: null_mut() };
    let mut arguments = JavaVMInitArgs {
        version: JNI_VERSION_1_8,
        nOptions: 1,
        options: &raw mut option,
        ignoreUnrecognized: JNI_FALSE,
    };
    let (mut vm, mut env) = (null_mut(), null_mut());
    // SAFETY: the function has this type in every JVM, and its arguments live until it returns. A JVM cannot be
    // unloaded.
    let vm = unsafe {
        let library = libloading::Library::new(Path::new(home).join("lib/server/libjvm.so")).unwrap();
        let create = library.get::<Create>(b"JNI_CreateJavaVM").unwrap();
        assert_eq!(create(&raw mut vm, &raw mut env, (&raw mut arguments).cast()), 0);
        std::mem::forget(library);
        JavaVM::from_raw(vm)
    };
    // Load the exception class now, because its file is deleted below.
    vm.attach_current_thread(|env| env.find_class(jni_str!("io/github/samsarrow/spark/SamsarrowException")).map(drop))
        .unwrap();
    std::fs::remove_dir_all(classes).unwrap();
    Some(vm)
}

/// Returns the kind and the text of the pending exception.
fn thrown(env: &mut Env<'_>) -> (String, String) {
    let exception = env.exception_occurred().unwrap();
    env.exception_clear();
    let mut text = |name| {
        let text = env.call_method(&exception, name, jni_sig!("()Ljava/lang/String;"), &[]).unwrap().l().unwrap();
        env.cast_local::<jni::objects::JString<'_>>(text).unwrap().to_string()
    };
    (text(jni_str!("kind")), text(jni_str!("getMessage")))
}

/// Wraps a raw byte array in a local reference.
fn array<'local>(env: &Env<'local>, raw: jni::sys::jarray) -> JByteArray<'local> {
    // SAFETY: `raw` refers to the only array that the test creates. The array lives as long as its frame.
    unsafe { JByteArray::from_raw(env, raw) }
}

#[test]
fn panics_become_exceptions() {
    let Some(vm) = jvm() else {
        eprintln!("not run: there is no Java on this machine");
        return;
    };
    vm.attach_current_thread(|env| -> jni::errors::Result<()> {
        let raw = env.get_raw();
        // SAFETY: the environment and the references below belong to this thread.
        let unowned = || unsafe { EnvUnowned::from_raw(raw) };
        let options = env.byte_array_from_slice(br#"{"options":{},"folders":[],"token":null}"#)?.into_raw();
        let none = || JClass::default();
        let calls: [Call<'_>; 10] = [
            ("client", &|env| {
                Java_io_github_samsarrow_spark_Native_client(unowned(), none(), array(env, options));
            }),
            ("plan", &|env| {
                Java_io_github_samsarrow_spark_Native_plan(unowned(), none(), 1, array(env, options));
            }),
            ("answer", &|_| {
                Java_io_github_samsarrow_spark_Native_answer(unowned(), none(), 1, 0);
            }),
            ("cancel", &|_| Java_io_github_samsarrow_spark_Native_cancel(unowned(), none(), 1)),
            ("open", &|env| {
                Java_io_github_samsarrow_spark_Native_open(unowned(), none(), 1, array(env, options));
            }),
            ("next", &|_| {
                Java_io_github_samsarrow_spark_Native_next(unowned(), none(), 1, 0, 0);
            }),
            ("close", &|_| Java_io_github_samsarrow_spark_Native_close(unowned(), none(), 1, JNI_FALSE)),
            ("counters", &|_| {
                Java_io_github_samsarrow_spark_Native_counters(unowned(), none(), 1);
            }),
            ("release", &|_| Java_io_github_samsarrow_spark_Native_release(unowned(), none(), 1)),
            ("about", &|_| {
                Java_io_github_samsarrow_spark_Native_about(unowned(), none());
            }),
        ];
        for (name, call) in calls {
            PANICS.set(true);
            call(env);
            PANICS.set(false);
            assert_eq!(thrown(env), ("panic".into(), "PanicError: on purpose".into()), "{name}");
        }
        // Without a panic, a call with an unknown handle fails and a valid call succeeds.
        calls[5].1(env);
        let (kind, text) = thrown(env);
        assert!(kind == "state" && text.contains("there is no reader with the handle 0x1"), "{text}");
        let client = Java_io_github_samsarrow_spark_Native_client(unowned(), none(), array(env, options));
        assert!(client > 0 && !env.exception_check());
        Java_io_github_samsarrow_spark_Native_release(unowned(), none(), client);
        assert!(!env.exception_check());
        Ok(())
    })
    .unwrap();
}
