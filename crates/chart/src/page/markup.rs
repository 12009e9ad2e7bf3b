//! HTML as it is written: whatever comes from outside goes through [`Markup::text`] or an
//! attribute, and is escaped there.
use serde::Serialize;
use std::fmt::Write;

/// A piece of HTML.
#[derive(Default)]
pub struct Markup {
    html: String,
}

/// Attributes: names and values.
pub type Attributes<'a> = &'a [(&'a str, &'a str)];

impl Markup {
    /// What is written so far.
    pub fn html(&self) -> &str {
        &self.html
    }

    /// What was written.
    pub fn into_html(self) -> String {
        self.html
    }

    /// What is HTML already: our own words and pieces.
    pub fn raw(&mut self, html: &str) -> &mut Markup {
        self.html.push_str(html);
        self
    }

    /// Words from anywhere. Control characters become the replacement character: some are errors in
    /// HTML.
    pub fn text(&mut self, text: &str) -> &mut Markup {
        for character in text.chars() {
            match character {
                '&' => self.html.push_str("&amp;"),
                '<' => self.html.push_str("&lt;"),
                '>' => self.html.push_str("&gt;"),
                '"' => self.html.push_str("&quot;"),
                '\'' => self.html.push_str("&#39;"),
                '\n' | '\t' => self.html.push(character),
                control if control.is_control() => self.html.push('\u{fffd}'),
                other => self.html.push(other),
            }
        }
        self
    }

    /// A start tag.
    pub fn open(&mut self, tag: &str, attributes: Attributes) -> &mut Markup {
        let _ = write!(self.html, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.html, " {name}=\"");
            self.text(value);
            self.html.push('"');
        }
        self.html.push('>');
        self
    }

    /// An end tag.
    pub fn close(&mut self, tag: &str) -> &mut Markup {
        let _ = write!(self.html, "</{tag}>");
        self
    }

    /// A tag around words.
    pub fn element(&mut self, tag: &str, attributes: Attributes, text: &str) -> &mut Markup {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// Data for the script. No `<` stands in it, so that it cannot end its element.
    pub fn data(&mut self, data: &impl Serialize) -> &mut Markup {
        let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
        self.raw("<script type=\"application/json\" class=\"data\">");
        self.raw(&json.replace('<', "\\u003c"));
        self.raw("</script>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_escaped_opens_a_tag_ends_an_attribute_or_a_script() {
        let hostile = "</script><script>alert('1')</script>\" onload=\"x\u{0}&amp;";
        let mut markup = Markup::default();
        markup.element("p", &[("title", hostile)], hostile).data(&hostile);
        let html = markup.into_html();
        assert_eq!(html.matches("<script").count(), 1, "only our own: {html}");
        assert_eq!(html.matches("</script").count(), 1);
        // In the data a quotation mark is JSON's, with its backslash: it opens nothing there.
        let (before_data, _) = html.split_once("<script").expect("data stands in a script");
        assert!(!before_data.contains("\" onload"), "{html}");
        assert!(html.contains("&amp;amp;") && !html.contains('\u{0}'));
    }
}
