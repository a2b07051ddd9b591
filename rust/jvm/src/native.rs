//! Native functions of `io.github.samsarrow.spark.Native`. This module contains all unsafe code of the library,
//! including the only write to Java's memory.
#![allow(unsafe_code, reason = "exported names, and a layout whose address Java passes")]

use std::any::Any;
use std::sync::Mutex;
use std::time::Duration;

use jni::errors::{Error as JniError, ErrorPolicy};
use jni::objects::{JByteArray, JClass, JLongArray, JThrowable, JValue};
use jni::sys::{jboolean, jint, jlong};
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use samsarrow_wire::sync::lock;
use zeroize::Zeroizing;

use crate::about;
use crate::clients::{Client, PendingRequest};
use crate::failure::Failure;
use crate::handles::Handles;
use crate::log_queue;
use crate::range::Range;
use crate::reader::{Counters, Next, Reader};
use crate::writer::Writer;

static CLIENTS: Handles<Client> = Handles::new("client");
static REQUESTS: Handles<Mutex<PendingRequest>> = Handles::new("request");
static READERS: Handles<Mutex<Reader>> = Handles::new("reader");
static WRITERS: Handles<Mutex<Writer>> = Handles::new("writer");

/// Error of a native call: an error of the library, or a pending Java exception.
#[derive(Debug)]
enum CallError {
    Library(Failure),
    Jni(JniError),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self::Library(failure)
    }
}

impl From<JniError> for CallError {
    fn from(error: JniError) -> Self {
        Self::Jni(error)
    }
}

/// Error policy that throws `SamsarrowException` for errors and panics.
struct Throw;

impl<T: Default> ErrorPolicy<T, CallError> for Throw {
    type Captures<'local: 'method, 'method> = ();

    fn on_error<'local: 'method, 'method>(
        env: &mut Env<'local>,
        (): &mut (),
        error: CallError,
    ) -> jni::errors::Result<T> {
        match error {
            CallError::Library(failure) => throw(env, &failure),
            CallError::Jni(_) if env.exception_check() => Ok(()),
            CallError::Jni(error) => throw(env, &Failure::state(format!("JNI: {error}"))),
        }?;
        Ok(T::default())
    }

    fn on_panic<'local: 'method, 'method>(
        env: &mut Env<'local>,
        (): &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        throw(env, &Failure::panic(text.unwrap_or_else(|| "panic without a message".into())))?;
        Ok(T::default())
    }
}

fn throw(env: &mut Env<'_>, failure: &Failure) -> jni::errors::Result<()> {
    let class = env.find_class(jni_str!("io/github/samsarrow/spark/SamsarrowException"))?;
    let kind = env.new_string(failure.kind)?;
    let name = env.new_string(&failure.name)?;
    let text = env.new_string(&failure.text)?;
    let fields = [JValue::from(&kind), JValue::from(&name), JValue::from(failure.retriable), JValue::from(&text)];
    let signature = jni_sig!("(Ljava/lang/String;Ljava/lang/String;ZLjava/lang/String;)V");
    let exception = env.new_object(class, signature, &fields)?;
    let exception = env.cast_local::<JThrowable<'_>>(exception)?;
    match env.throw(exception) {
        // `throw` returns this error if it succeeds, because the exception is then pending.
        Err(JniError::JavaException) => Ok(()),
        other => other,
    }
}

fn call<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    work: impl FnOnce(&mut Env<'local>) -> Result<T, CallError>,
) -> T {
    env.with_env(|env| {
        #[cfg(test)]
        tests::panic_if_requested();
        work(env)
    })
    .resolve::<Throw>()
}

fn text(env: &Env<'_>, bytes: &JByteArray<'_>) -> Result<String, CallError> {
    let bytes = env.convert_byte_array(bytes)?;
    String::from_utf8(bytes).map_err(|_| Failure::state("the jar passed text that is not UTF-8").into())
}

fn millis(ms: jint) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

/// Converts a size that Java passes.
fn size(number: jlong) -> Result<usize, Failure> {
    usize::try_from(number).map_err(|_| Failure::state(format!("the jar passed an invalid size: {number}")))
}

/// `static native long client(byte[] options)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_client<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    options: JByteArray<'local>,
) -> jlong {
    // This copy of the options is zeroed, because they may contain passwords.
    call(env, |env| Ok(CLIENTS.put(Client::new(&Zeroizing::new(text(env, &options)?))?)))
}

/// `static native long plan(long client, byte[] request)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_plan<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    request: JByteArray<'local>,
) -> jlong {
    call(env, |env| Ok(REQUESTS.put(Mutex::new(CLIENTS.get(client)?.plan(text(env, &request)?)))))
}

/// `static native byte[] answer(long request, int ms)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_answer<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    request: jlong,
    ms: jint,
) -> JByteArray<'local> {
    call(env, |env| {
        let Some(response) = lock(&*REQUESTS.get(request)?).response(millis(ms))? else {
            return Ok(JByteArray::default());
        };
        // This copy of the response is zeroed, because it may contain a token.
        Ok(env.byte_array_from_slice(Zeroizing::new(response).as_bytes())?)
    })
}

/// `static native void cancel(long request)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_cancel<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    request: jlong,
) {
    call(env, |_| Ok(lock(&*REQUESTS.take(request)?).cancel()?))
}

/// `static native long open(long client, byte[] range)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_open<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    range: JByteArray<'local>,
) -> jlong {
    call(env, |env| {
        let range = Range::parse(&text(env, &range)?)?;
        let reader = Reader::new(CLIENTS.get(client)?.shared().clone(), range)?;
        Ok(READERS.put(Mutex::new(reader)))
    })
}

/// `static native int next(long reader, long layout, int ms)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_next<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    reader: jlong,
    layout: jlong,
    ms: jint,
) -> jint {
    call(env, |_| {
        let reader = READERS.get(reader)?;
        let mut reader = lock(&reader);
        match reader.next(millis(ms))? {
            Next::End => Ok(-1),
            Next::Nothing => Ok(0),
            Next::Rows(rows) => {
                let source = reader.layout().ok_or_else(|| Failure::state(format!("{rows} rows without a layout")))?;
                let slots = source.slots();
                let to = std::ptr::with_exposed_provenance_mut::<u64>(layout as usize);
                if to.is_null() || !to.is_aligned() {
                    return Err(Failure::state(format!("the jar passed an invalid layout address: {layout:#x}")).into());
                }
                // SAFETY: Java passes the address of memory that stays allocated while the reader is open. It has space
                // for the head and for the number of vectors that Java passed to `open`, and the layout has exactly
                // this number of vectors.
                unsafe { std::ptr::copy_nonoverlapping(slots.as_ptr(), to, slots.len()) };
                Ok(jint::try_from(rows).unwrap_or(jint::MAX))
            }
        }
    })
}

/// `static native void close(long reader, boolean whole)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_close<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    reader: jlong,
    whole: jboolean,
) {
    call(env, |_| {
        lock(&*READERS.take(reader)?).close(whole);
        Ok(())
    })
}

/// `static native long openWriter(long client, byte[] request)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_openWriter<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
    request: JByteArray<'local>,
) -> jlong {
    call(env, |env| {
        let writer = Writer::new(CLIENTS.get(client)?.shared().clone(), &text(env, &request)?)?;
        Ok(WRITERS.put(Mutex::new(writer)))
    })
}

/// `static native long block(long writer, long bytes)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_block<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    writer: jlong,
    bytes: jlong,
) -> jlong {
    call(env, |_| Ok(lock(&*WRITERS.get(writer)?).block(size(bytes)?)? as jlong))
}

/// `static native void write(long writer, long length, int rows)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_write<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    writer: jlong,
    length: jlong,
    rows: jint,
) {
    call(env, |_| Ok(lock(&*WRITERS.get(writer)?).write(size(length)?, size(rows.into())?)?))
}

/// `static native boolean sent(long writer, boolean all, int ms)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_sent<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    writer: jlong,
    all: jboolean,
    ms: jint,
) -> jboolean {
    call(env, |_| Ok(lock(&*WRITERS.get(writer)?).sent(all, millis(ms))?))
}

/// `static native void closeWriter(long writer, boolean whole)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_closeWriter<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    writer: jlong,
    whole: jboolean,
) {
    call(env, |_| {
        lock(&*WRITERS.take(writer)?).close(whole);
        Ok(())
    })
}

/// `static native long[] counters(long reader)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_counters<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    reader: jlong,
) -> JLongArray<'local> {
    call(env, |env| {
        let Counters { wait, decode, bytes, rows, peak, lost, out_of_range } = lock(&*READERS.get(reader)?).counters();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let values = [nanos(wait), nanos(decode), bytes, rows, peak, lost, out_of_range];
        let values = values.map(|value| jlong::try_from(value).unwrap_or(jlong::MAX));
        let array = env.new_long_array(values.len())?;
        array.set_region(env, 0, &values)?;
        Ok(array)
    })
}

/// `static native void release(long client)`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_release<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    client: jlong,
) {
    call(env, |_| Ok(CLIENTS.take(client)?.release()?))
}

/// `static native byte[] about()`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_about<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
) -> JByteArray<'local> {
    call(env, |env| Ok(env.byte_array_from_slice(about(READERS.count(), WRITERS.count()).as_bytes())?))
}

/// `static native byte[] lines()`
#[unsafe(no_mangle)]
pub(crate) extern "system" fn Java_io_github_samsarrow_spark_Native_lines<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
) -> JByteArray<'local> {
    call(env, |env| Ok(env.byte_array_from_slice(log_queue::take().as_bytes())?))
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
