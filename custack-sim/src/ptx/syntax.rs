//! Syntax errors in operands, whatever the instruction: a text with one is not PTX, as opposed to one that is not
//! modelled.

use super::tokens::{Token, Written};
use super::{Refusal, wrong};

/// Refuses operands that are not separated, are missing between commas, or are in brackets that do not match.
pub(super) fn check(operands: &[Token]) -> Result<(), Refusal> {
    let mut open = Vec::new();
    let mut before: Option<&Token> = None;
    for token in operands {
        let fits = match token {
            Token::Sign(sign @ ('[' | '{' | '(')) => {
                open.push(*sign);
                true
            }
            Token::Sign(sign @ (']' | '}' | ')')) => {
                open.pop().is_some_and(|begin| closes(begin, *sign)) && !before.is_some_and(is_unfinished)
            }
            Token::Sign(',') => !before.is_none_or(|it| is_unfinished(it) || opens(it)),
            Token::Sign(sign) => "+-!~*/%&|^<>=?:".contains(*sign),
            _ => !before.is_some_and(is_value),
        };
        if !fits {
            let at = before.map_or_else(String::new, |before| format!(" behind `{before}`"));
            return Err(wrong(format!("Parsing error near '{token}'{at}: syntax error")));
        }
        before = Some(token);
    }
    if !open.is_empty() || before.is_some_and(is_unfinished) {
        return Err(wrong(format!("Parsing error near the end of '{}': syntax error", Written(operands))));
    }
    Ok(())
}

fn closes(begin: char, end: char) -> bool {
    matches!((begin, end), ('[', ']') | ('{', '}') | ('(', ')'))
}

fn opens(token: &Token) -> bool {
    matches!(token, Token::Sign('[' | '{' | '('))
}

/// Whether an operand must follow this token.
fn is_unfinished(token: &Token) -> bool {
    matches!(token, Token::Sign(sign) if ",+-!~*/%&|^<=?:".contains(*sign))
}

/// Whether no name and no number can follow this token.
fn is_value(token: &Token) -> bool {
    !matches!(token, Token::Sign(sign) if !")]}".contains(*sign))
}
