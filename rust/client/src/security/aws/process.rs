//! Credentials from the output of a program (`credential_process` of a profile).

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use samsarrow_wire::sync::lock;
use serde_json::Value;
use tokio::sync::oneshot;

use super::Found;
use super::chain::failed;
use super::requests::parse_json;
use crate::error::Result;

/// Maximum size of the output, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;

/// Guard of a program, which is killed if the lookup is cancelled or exceeds its timeout.
struct KillOnDrop(Arc<Mutex<Child>>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let mut child = lock(&self.0);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Starts the program of a profile, not in a shell, and parses the credentials that it prints.
pub(super) async fn run(profile: &str, command: &str) -> Result<Found> {
    let error = |reason: String| failed(format!("profile {profile}: credential_process {reason}"));
    let words = split(command).ok_or_else(|| error("has a quotation mark without its pair".to_owned()))?;
    let (program, arguments) = words.split_first().ok_or_else(|| error("is empty".to_owned()))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|cause| error(format!("{program} cannot be started: {cause}")))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let running = KillOnDrop(Arc::new(Mutex::new(child)));
    // Threads, not tasks of the runtime: a program that a killed program has started may keep the pipes open, and the
    // end of a runtime waits for its tasks.
    let (stdout, stderr) = (read(stdout), read(stderr));
    let cancelled = |_| error("was cancelled".to_owned());
    let (output, message) = (stdout.await.map_err(cancelled)?, stderr.await.map_err(cancelled)?);
    // The program has closed its output and is about to exit. If it does not, dropping the guard kills it.
    let child = Arc::clone(&running.0);
    let (sender, ended) = oneshot::channel();
    thread::spawn(move || {
        loop {
            let status = lock(&child).try_wait();
            match status {
                Ok(None) if !sender.is_closed() => thread::sleep(std::time::Duration::from_millis(5)),
                status => {
                    let _ = sender.send(status);
                    break;
                }
            }
        }
    });
    let status = ended.await.map_err(cancelled)?.map_err(|cause| error(format!("cannot be waited for: {cause}")))?;
    if let Some(status) = status.filter(|status| !status.success()) {
        let message = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("without a message");
        let message: String = message.chars().take(300).collect();
        return Err(error(format!("{program} failed with {status}: {message}")));
    }
    let version = serde_json::from_str::<Value>(&output).ok().and_then(|json| json.get("Version")?.as_i64());
    if version != Some(1) {
        return Err(error(format!("{program} prints no JSON object with \"Version\": 1")));
    }
    parse_json(&format!("profile {profile}: credential_process {program}"), &output)
}

/// Reads a pipe to its end in a thread.
fn read(pipe: Option<impl Read + Send + 'static>) -> oneshot::Receiver<String> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Splits a command into words, by the rules of POSIX shells for quotation marks and backslashes.
fn split(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (Some(open), character) if character == open => quote = None,
            (None | Some('"'), '\\') => {
                let next = characters.next()?;
                let word = word.get_or_insert_default();
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(next);
            }
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_commands_like_a_shell() {
        for (command, words) in [
            ("/bin/p a  b", Some(vec!["/bin/p", "a", "b"])),
            (
                r#""/my programs/p" --x 'a "b"' c\ d "e\"\n""#,
                Some(vec!["/my programs/p", "--x", "a \"b\"", "c d", "e\"\\n"]),
            ),
            ("p ''", Some(vec!["p", ""])),
            ("  ", Some(vec![])),
            ("p 'a", None),
            ("p \\", None),
        ] {
            assert_eq!(split(command), words.map(|words| words.into_iter().map(str::to_owned).collect()), "{command}");
        }
    }
}
