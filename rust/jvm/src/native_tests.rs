//! Every function that Java calls, called from a JVM in this process while it panics.

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

/// Panics if the test that runs on this thread wants that.
pub(super) fn panic_if_wanted() {
    assert!(!PANICS.get(), "on purpose");
}

/// The name of a function, and a call of it.
type Call<'a> = (&'a str, &'a dyn Fn(&Env<'_>));
type Create = unsafe extern "system" fn(*mut *mut jni::sys::JavaVM, *mut *mut c_void, *mut c_void) -> jint;

/// A JVM that knows the exception; none where no Java is installed.
fn jvm() -> Option<JavaVM> {
    let told = Command::new("java").args(["-XshowSettings:properties", "-version"]).output().ok()?;
    let told = String::from_utf8_lossy(&told.stderr);
    let home = told.lines().find_map(|line| line.trim().strip_prefix("java.home = "))?;
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
    // SAFETY: the function is of that type in every JVM; what it is given lives until it returns. A JVM cannot be unloaded.
    let vm = unsafe {
        let library = libloading::Library::new(Path::new(home).join("lib/server/libjvm.so")).unwrap();
        let create = library.get::<Create>(b"JNI_CreateJavaVM").unwrap();
        assert_eq!(create(&raw mut vm, &raw mut env, (&raw mut arguments).cast()), 0);
        std::mem::forget(library);
        JavaVM::from_raw(vm)
    };
    // The exception is loaded while the thread has its class at hand.
    vm.attach_current_thread(|env| env.find_class(jni_str!("io/github/samsarrow/spark/SamsarrowException")).map(drop))
        .unwrap();
    std::fs::remove_dir_all(classes).unwrap();
    Some(vm)
}

/// Kind and text of the exception that a call has thrown.
fn thrown(env: &mut Env<'_>) -> (String, String) {
    let exception = env.exception_occurred().unwrap();
    env.exception_clear();
    let mut text = |name| {
        let found = env.call_method(&exception, name, jni_sig!("()Ljava/lang/String;"), &[]).unwrap().l().unwrap();
        env.cast_local::<jni::objects::JString<'_>>(found).unwrap().to_string()
    };
    (text(jni_str!("kind")), text(jni_str!("getMessage")))
}

/// A reference of the frame of `env` to an array of bytes.
fn array<'local>(env: &Env<'local>, raw: jni::sys::jarray) -> JByteArray<'local> {
    // SAFETY: the one array that the test makes, which lives as long as its frame.
    unsafe { JByteArray::from_raw(env, raw) }
}

#[test]
fn a_panic_is_an_exception_and_the_library_goes_on() {
    let Some(vm) = jvm() else {
        eprintln!("not run: there is no Java on this machine");
        return;
    };
    vm.attach_current_thread(|env| -> jni::errors::Result<()> {
        let raw = env.get_raw();
        // SAFETY: of this thread, and so are the references below.
        let here = || unsafe { EnvUnowned::from_raw(raw) };
        let options = env.byte_array_from_slice(br#"{"options":{},"folders":[],"token":null}"#)?.into_raw();
        let none = || JClass::default();
        let calls: [Call<'_>; 10] = [
            ("client", &|env| {
                Java_io_github_samsarrow_spark_Native_client(here(), none(), array(env, options));
            }),
            ("plan", &|env| {
                Java_io_github_samsarrow_spark_Native_plan(here(), none(), 1, array(env, options));
            }),
            ("answer", &|_| {
                Java_io_github_samsarrow_spark_Native_answer(here(), none(), 1, 0);
            }),
            ("cancel", &|_| Java_io_github_samsarrow_spark_Native_cancel(here(), none(), 1)),
            ("open", &|env| {
                Java_io_github_samsarrow_spark_Native_open(here(), none(), 1, array(env, options));
            }),
            ("next", &|_| {
                Java_io_github_samsarrow_spark_Native_next(here(), none(), 1, 0, 0);
            }),
            ("close", &|_| Java_io_github_samsarrow_spark_Native_close(here(), none(), 1, JNI_FALSE)),
            ("counters", &|_| {
                Java_io_github_samsarrow_spark_Native_counters(here(), none(), 1);
            }),
            ("release", &|_| Java_io_github_samsarrow_spark_Native_release(here(), none(), 1)),
            ("about", &|_| {
                Java_io_github_samsarrow_spark_Native_about(here(), none());
            }),
        ];
        for (name, call) in calls {
            PANICS.set(true);
            call(env);
            PANICS.set(false);
            assert_eq!(thrown(env), ("panic".into(), "PanicError: on purpose".into()), "{name}");
        }
        // And without: a number that nobody has, and then one that is right.
        calls[5].1(env);
        let (kind, text) = thrown(env);
        assert!(kind == "state" && text.contains("there is no reader of number 0x1"), "{text}");
        let client = Java_io_github_samsarrow_spark_Native_client(here(), none(), array(env, options));
        assert!(client > 0 && !env.exception_check());
        Java_io_github_samsarrow_spark_Native_release(here(), none(), client);
        assert!(!env.exception_check());
        Ok(())
    })
    .unwrap();
}
