//! Parser of options in the text of a file. Features and defaults are read, other options are skipped.

use super::file::{Default as Given, Features, Field};
use super::lexer::Token;
use super::parse::{Parsed, Parser};

/// Value of an option in a `.proto` file.
enum Value {
    Word(String),
    Quoted(Vec<u8>),
    /// Value in braces, which is skipped or contains features.
    Other,
}

impl Parser<'_> {
    /// Parses `NAME = VALUE;` after the word `option`.
    pub(super) fn option(&mut self, features: &mut Features) -> Parsed {
        self.named_value(features)?;
        self.mark(';')
    }

    /// Parses the name and value of an option. If the option is a feature, it is set in `features`.
    fn named_value(&mut self, features: &mut Features) -> Parsed<(String, Value)> {
        let mut name = String::new();
        loop {
            if self.takes('(')? {
                name += &format!("({})", self.path()?);
                self.mark(')')?;
            } else {
                name += self.word()?;
            }
            if !self.takes('.')? {
                break;
            }
            name.push('.');
        }
        self.mark('=')?;
        let value = self.value(features, &name)?;
        if let (Some(feature), Value::Word(word)) = (name.strip_prefix("features."), &value) {
            features.set(feature, word);
        }
        Ok((name, value))
    }

    fn value(&mut self, features: &mut Features, name: &str) -> Parsed<Value> {
        if self.is('{') {
            if name == "features" {
                self.step()?;
                self.features(features)?;
            } else {
                self.block()?;
            }
            return Ok(Value::Other);
        }
        if matches!(self.ahead, Token::Quoted(_)) {
            return self.quoted().map(Value::Quoted);
        }
        let mut word = if self.takes('-')? { "-" } else { "" }.to_owned();
        self.takes('+')?;
        match self.ahead {
            Token::Number(digits) => {
                word += digits;
                self.step()?;
            }
            _ => self.path_into(&mut word)?,
        }
        Ok(Value::Word(word))
    }

    /// Parses features written as `name: VALUE`, up to the closing brace.
    fn features(&mut self, features: &mut Features) -> Parsed {
        while !self.takes('}')? {
            match self.ahead {
                Token::Word(name) => {
                    self.step()?;
                    self.takes(':')?;
                    match self.ahead {
                        Token::Word(value) => {
                            features.set(name, value);
                            self.step()?;
                        }
                        _ => self.block()?,
                    }
                }
                Token::Mark('[') => {
                    while !self.takes(']')? {
                        if self.step()? == Token::End {
                            return self.unexpected("']'");
                        }
                    }
                    self.takes(':')?;
                    self.block()?;
                }
                Token::Mark(',' | ';') => drop(self.step()?),
                _ => return self.unexpected("a feature"),
            }
        }
        Ok(())
    }

    pub(super) fn field_options(&mut self, field: &mut Field) -> Parsed {
        loop {
            let (name, value) = self.named_value(&mut field.features)?;
            match (name.as_str(), value) {
                ("default", Value::Word(word)) => field.default = Some(Given::Word(word)),
                ("default", Value::Quoted(text)) => field.default = Some(Given::Quoted(text)),
                ("packed", Value::Word(word)) => field.packed = Some(word == "true"),
                _ => (),
            }
            if self.takes(']')? {
                return Ok(());
            }
            self.mark(',')?;
        }
    }
}
