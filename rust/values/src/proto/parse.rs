//! Parser of `.proto` files.

use super::file::{Enum, Features, Field, File, Label, Message, Scalar, Syntax, Type};
use super::lexer::{Lexer, Token};
use super::schema::MAP_ENTRY;
use crate::error::SchemaError;

/// Maximum nesting of messages.
const MAX_DEPTH: usize = 64;

pub(super) type Parsed<T = ()> = Result<T, SchemaError>;

pub(super) fn parse(text: &str) -> Parsed<File> {
    let mut parser = Parser { lexer: Lexer::new(text), ahead: Token::End, file: File::default() };
    parser.step()?;
    parser.all()?;
    Ok(parser.file)
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) ahead: Token<'a>,
    file: File,
}

impl<'a> Parser<'a> {
    pub(super) fn step(&mut self) -> Parsed<Token<'a>> {
        Ok(std::mem::replace(&mut self.ahead, self.lexer.next()?))
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let found = match &self.ahead {
            Token::Word(word) | Token::Number(word) => format!("{word:?}"),
            Token::Quoted(text) => format!("the text {:?}", String::from_utf8_lossy(text)),
            Token::Mark(mark) => format!("{mark:?}"),
            Token::End => "the end".to_owned(),
        };
        Err(self.lexer.error(format!("{expected} is expected, not {found}")))
    }

    pub(super) fn is(&self, mark: char) -> bool {
        self.ahead == Token::Mark(mark)
    }

    pub(super) fn takes(&mut self, mark: char) -> Parsed<bool> {
        let found = self.is(mark);
        if found {
            self.step()?;
        }
        Ok(found)
    }

    pub(super) fn mark(&mut self, mark: char) -> Parsed {
        if self.takes(mark)? { Ok(()) } else { self.unexpected(&format!("{mark:?}")) }
    }

    pub(super) fn word(&mut self) -> Parsed<&'a str> {
        match self.ahead {
            Token::Word(word) => self.step().map(|_| word),
            _ => self.unexpected("a name"),
        }
    }

    fn takes_word(&mut self, word: &str) -> Parsed<bool> {
        let found = self.ahead == Token::Word(word);
        if found {
            self.step()?;
        }
        Ok(found)
    }

    /// Parses a dotted name. A leading dot marks an absolute name.
    pub(super) fn path(&mut self) -> Parsed<String> {
        let mut path = if self.takes('.')? { ".".to_owned() } else { String::new() };
        self.path_into(&mut path)?;
        Ok(path)
    }

    pub(super) fn path_into(&mut self, path: &mut String) -> Parsed {
        *path += self.word()?;
        while self.takes('.')? {
            path.push('.');
            *path += self.word()?;
        }
        Ok(())
    }

    pub(super) fn quoted(&mut self) -> Parsed<Vec<u8>> {
        let mut all = Vec::new();
        if !matches!(self.ahead, Token::Quoted(_)) {
            return self.unexpected("a text in quotes");
        }
        while let Token::Quoted(text) = &self.ahead {
            all.extend_from_slice(text);
            self.step()?;
        }
        Ok(all)
    }

    fn text(&mut self) -> Parsed<String> {
        let text = self.quoted()?;
        String::from_utf8(text).map_err(|_| self.lexer.error("the text is not UTF-8"))
    }

    fn integer(&mut self) -> Parsed<i64> {
        let minus = self.takes('-')?;
        let Token::Number(digits) = self.ahead else { return self.unexpected("a number") };
        let number = integer(digits).and_then(|number| i64::try_from(number).ok());
        let Some(number) = number else { return self.unexpected("an integer") };
        self.step()?;
        Ok(if minus { -number } else { number })
    }

    fn all(&mut self) -> Parsed {
        loop {
            if self.ahead == Token::End {
                return Ok(());
            }
            if self.takes(';')? {
                continue;
            }
            match self.word()? {
                "syntax" => {
                    self.mark('=')?;
                    self.file.syntax = match self.text()?.as_str() {
                        "proto2" => Syntax::Proto2,
                        "proto3" => Syntax::Proto3,
                        other => return Err(self.lexer.error(format!("there is no syntax {other:?}"))),
                    };
                    self.mark(';')?;
                }
                "edition" => {
                    self.mark('=')?;
                    self.text()?;
                    self.file.syntax = Syntax::Editions;
                    self.mark(';')?;
                }
                "package" => {
                    self.file.package = self.path()?;
                    self.mark(';')?;
                }
                "import" => {
                    if matches!(self.ahead, Token::Word("public" | "weak" | "option")) {
                        self.step()?;
                    }
                    let import = self.text()?;
                    self.file.imports.push(import);
                    self.mark(';')?;
                }
                "option" => {
                    let mut features = self.file.features;
                    self.option(&mut features)?;
                    self.file.features = features;
                }
                "message" => {
                    let message = self.message(0)?;
                    self.file.messages.push(message);
                }
                "enum" => {
                    let found = self.enumeration()?;
                    self.file.enums.push(found);
                }
                "service" | "extend" => {
                    self.path()?;
                    self.block()?;
                }
                "export" | "local" => (),
                other => return Err(self.lexer.error(format!("{other:?} begins no declaration"))),
            }
        }
    }

    /// Skips a block in braces, including nested blocks.
    pub(super) fn block(&mut self) -> Parsed {
        let mut open: usize = 0;
        loop {
            match self.step()? {
                Token::Mark('{') => open += 1,
                Token::Mark('}') => open = open.saturating_sub(1),
                Token::End => return self.unexpected("'}'"),
                _ => (),
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn rest_of_statement(&mut self) -> Parsed {
        while !self.takes(';')? {
            if self.is('{') {
                self.block()?;
            } else if self.step()? == Token::End {
                return self.unexpected("';'");
            }
        }
        Ok(())
    }

    fn message(&mut self, depth: usize) -> Parsed<Message> {
        let name = self.word()?.to_owned();
        let mut message = Message { name, ..Message::default() };
        self.body(&mut message, depth)?;
        Ok(message)
    }

    fn body(&mut self, message: &mut Message, depth: usize) -> Parsed {
        if depth >= MAX_DEPTH {
            return Err(self.lexer.error(format!("messages are nested more than {MAX_DEPTH} deep")));
        }
        self.mark('{')?;
        while !self.takes('}')? {
            if self.takes(';')? {
                continue;
            }
            // Any declaration other than a field begins with a word. A field may begin with a dot, if its type is an
            // absolute name.
            let Token::Word(word) = self.ahead else {
                self.field(message, None, depth)?;
                continue;
            };
            match word {
                "message" | "export" | "local" => {
                    self.step()?;
                    if word != "message" {
                        continue;
                    }
                    let inner = self.message(depth + 1)?;
                    message.messages.push(inner);
                }
                "enum" => {
                    self.step()?;
                    let inner = self.enumeration()?;
                    message.enums.push(inner);
                }
                "oneof" => {
                    self.step()?;
                    self.oneof(message, depth)?;
                }
                "option" => {
                    self.step()?;
                    let mut features = message.features;
                    self.option(&mut features)?;
                    message.features = features;
                }
                "reserved" | "extensions" => self.rest_of_statement()?,
                "extend" => {
                    self.step()?;
                    self.path()?;
                    self.block()?;
                }
                _ => self.field(message, None, depth)?,
            }
        }
        Ok(())
    }

    fn oneof(&mut self, message: &mut Message, depth: usize) -> Parsed {
        self.word()?;
        let number = message.oneofs.len();
        message.oneofs.push(Features::default());
        self.mark('{')?;
        while !self.takes('}')? {
            if self.takes(';')? {
            } else if self.takes_word("option")? {
                let mut features = Features::default();
                self.option(&mut features)?;
                if let Some(oneof) = message.oneofs.get_mut(number) {
                    *oneof = features.or(*oneof);
                }
            } else {
                self.field(message, Some(number), depth)?;
            }
        }
        Ok(())
    }

    fn field(&mut self, message: &mut Message, oneof: Option<usize>, depth: usize) -> Parsed {
        let mut label = match self.ahead {
            Token::Word("repeated") => Label::Repeated,
            Token::Word("required") => Label::Required,
            Token::Word("optional") => Label::Optional,
            _ => Label::Singular,
        };
        if label != Label::Singular {
            self.step()?;
        }
        let (name, kind) = if self.ahead == Token::Word("map") {
            self.step()?;
            if self.is('<') { self.map(message, &mut label)? } else { self.after_type("map".to_owned())? }
        } else if self.ahead == Token::Word("group") {
            self.step()?;
            let name = self.word()?.to_owned();
            (name.to_ascii_lowercase(), Type::Group(name))
        } else {
            let kind = self.path()?;
            (self.word()?.to_owned(), named(kind))
        };
        self.mark('=')?;
        let number = self.integer()?;
        let (packed, default, features) = (None, None, Features::default());
        let mut field = Field { name, number, label, kind, oneof, default, packed, features };
        if self.takes('[')? {
            self.field_options(&mut field)?;
        }
        if let Type::Group(name) = &field.kind {
            let mut inner = Message { name: name.clone(), group: true, ..Message::default() };
            self.body(&mut inner, depth + 1)?;
            message.messages.push(inner);
        } else {
            self.mark(';')?;
        }
        message.fields.push(field);
        Ok(())
    }

    /// Parses the rest of a declaration whose type name begins with `map`, but which is not a map.
    fn after_type(&mut self, mut kind: String) -> Parsed<(String, Type)> {
        while self.takes('.')? {
            kind.push('.');
            kind += self.word()?;
        }
        Ok((self.word()?.to_owned(), named(kind)))
    }

    /// Parses `<KEY, VALUE> name` after `map`. The field becomes a repeated field of a synthetic entry message.
    fn map(&mut self, message: &mut Message, label: &mut Label) -> Parsed<(String, Type)> {
        self.mark('<')?;
        let key = named(self.path()?);
        self.mark(',')?;
        let value = named(self.path()?);
        self.mark('>')?;
        let name = self.word()?.to_owned();
        if *label != Label::Singular {
            return Err(self.lexer.error(format!("the map {name} cannot be repeated, optional or required")));
        }
        *label = Label::Repeated;
        let part = |name: &str, number, kind| Field {
            name: name.to_owned(),
            number,
            label: Label::Singular,
            kind,
            oneof: None,
            default: None,
            packed: None,
            features: Features::default(),
        };
        let entry = format!("{name}{MAP_ENTRY}");
        let fields = vec![part("key", 1, key), part("value", 2, value)];
        message.messages.push(Message { name: entry.clone(), fields, entry: true, ..Message::default() });
        Ok((name, Type::Named(entry)))
    }

    fn enumeration(&mut self) -> Parsed<Enum> {
        let mut found = Enum { name: self.word()?.to_owned(), values: Vec::new() };
        self.mark('{')?;
        while !self.takes('}')? {
            if self.takes(';')? {
                continue;
            }
            match self.word()? {
                "option" if !self.is('=') => self.option(&mut Features::default())?,
                "reserved" if !self.is('=') => self.rest_of_statement()?,
                name => {
                    self.mark('=')?;
                    let number = self.integer()?;
                    let Ok(number) = i32::try_from(number) else {
                        return Err(self.lexer.error(format!("{name} = {number} is beyond 32 bits")));
                    };
                    found.values.push((name.to_owned(), number));
                    self.rest_of_statement()?;
                }
            }
        }
        Ok(found)
    }
}

fn named(name: String) -> Type {
    Scalar::from_name(&name).map_or(Type::Named(name), Type::Scalar)
}

/// Parses a decimal, hexadecimal or octal integer.
pub(super) fn integer(digits: &str) -> Option<u64> {
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()
    } else {
        digits.parse().ok()
    }
}
