//! A page as a whole: head, contents, sections, foot, and the style and script that it carries.
use super::markup::Markup;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// How a file begins that was written here, and may be replaced by another page.
pub const BEGINNING: &str = "<!doctype html>\n<!-- a page of extant lab -->\n";

/// A section of a page, listed in its contents.
pub struct Section {
    /// What links name it by; letters, digits and hyphens, once in a page.
    pub id: String,
    /// A line over its title: "Post 0". Empty for none.
    pub kicker: String,
    /// Its heading.
    pub title: String,
    /// What is under the heading.
    pub body: Markup,
    /// Headings inside `body` that the contents list too: ids and titles.
    pub parts: Vec<(String, String)>,
}

/// A whole page.
pub struct Document<'a> {
    /// Its heading, and what a browser calls it.
    pub title: &'a str,
    /// What is under the title, before the first section.
    pub lead: Markup,
    /// In order.
    pub sections: Vec<Section>,
}

impl Document<'_> {
    /// The page as HTML.
    pub fn into_html(self) -> String {
        let mut out = Markup::default();
        out.raw(BEGINNING);
        out.raw("<html lang=\"en\"><head><meta charset=\"utf-8\">");
        out.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        // Nothing is fetched, whatever stands in the page.
        out.raw(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
            style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">",
        );
        out.raw(
            "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" \
            href=\"data:,\">",
        );
        out.element("title", &[], self.title);
        out.raw("<style>\n").raw(STYLE).raw("</style></head><body>");
        out.raw("<a class=\"skip\" href=\"#content\">Skip to the content</a>");
        out.raw("<button type=\"button\" id=\"theme\" hidden>Theme: as the system</button>");
        out.raw("<div class=\"page\">");
        self.contents(&mut out);
        out.raw("<main id=\"content\"><header>").element("h1", &[], self.title);
        out.raw(self.lead.html()).raw("</header>");
        for section in &self.sections {
            out.open(
                "section",
                &[("id", &section.id), ("aria-labelledby", &format!("{}-title", section.id))],
            );
            if !section.kicker.is_empty() {
                out.element("p", &[("class", "kicker")], &section.kicker);
            }
            out.element("h2", &[("id", &format!("{}-title", section.id))], &section.title);
            out.raw(section.body.html()).close("section");
        }
        out.raw(
            "<footer><p>Made by <code>extant lab</code>. The page holds all that it shows and \
            asks no network for anything; the same command gives the same bytes. ",
        );
        out.raw(
            "In a plot the arrow keys move a cursor that reads the values \
            out.</p></footer></main></div>",
        );
        out.raw("<script>\n").raw(SCRIPT).raw("</script></body></html>\n");
        out.into_html()
    }

    fn contents(&self, out: &mut Markup) {
        out.raw("<nav aria-label=\"Contents\"><details open><summary>Contents</summary><ol>");
        for section in &self.sections {
            out.raw("<li>").open("a", &[("href", &format!("#{}", section.id))]);
            if !section.kicker.is_empty() {
                out.element("span", &[("class", "kicker")], &section.kicker).raw(" ");
            }
            out.text(&section.title).close("a");
            if !section.parts.is_empty() {
                out.raw("<ol>");
                for (id, title) in &section.parts {
                    out.raw("<li>")
                        .element("a", &[("href", &format!("#{id}"))], title)
                        .raw("</li>");
                }
                out.raw("</ol>");
            }
            out.raw("</li>");
        }
        out.raw("</ol></details></nav>");
    }
}
