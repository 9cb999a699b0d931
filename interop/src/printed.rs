//! Pages as a browser prints them.

use std::path::Path;

use crate::Lab;

/// A page on paper.
#[derive(Debug)]
pub struct Printed {
    /// Sheets of the PDF.
    pub sheets: usize,
    /// The text that is visible on paper. Blanks that keep words together are plain ones.
    pub text: String,
    /// Messages of the console.
    pub console: Vec<String>,
}

/// Begins the message of the script that reads the text.
const MARK: &str = "printed text: ";

impl Lab {
    /// Prints a page of the directory. The text is that of the page while the browser lays it out for paper;
    /// where `pdftotext` is installed, the file has it, too.
    #[track_caller]
    pub fn printed(&self, chromium: &Path, page: &str) -> Printed {
        // The listener runs once the rules for paper are in force, so what these hide is not in the text.
        let script = format!(
            "<script>matchMedia('print').addEventListener('change',change=>{{\
             if(change.matches)console.log('{MARK}'+JSON.stringify(document.body.innerText));}});</script></body>"
        );
        let mut text = self.read(page);
        if !text.contains("script-src") {
            text = text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';");
        }
        assert_eq!(text.matches("</body>").count(), 1, "{page}: one end");
        let (copy, pdf) = (format!("print-{page}"), format!("{page}.pdf"));
        self.write(&copy, &text.replace("</body>", &script));
        let flags = [format!("--print-to-pdf={}", self.arg(&pdf)), "--enable-logging=stderr".to_owned()];
        let ran = self.browse(chromium, &copy, &flags.each_ref().map(String::as_str));
        let (told, console): (Vec<&str>, Vec<&str>) =
            ran.err.lines().filter(|line| line.contains(":CONSOLE")).partition(|line| line.contains(MARK));
        let told = told.first().and_then(|line| line.split_once(MARK)?.1.rsplit_once("\", source:"));
        let (json, _) = told.unwrap_or_else(|| panic!("{page}: no text on paper: {}", ran.err));
        let text: String = serde_json::from_str(json).expect("the text as JSON");
        let text = text.replace('\u{a0}', " ");
        let file = std::fs::read(self.path(&pdf)).expect("a PDF");
        assert!(file.starts_with(b"%PDF-"), "{page}: no PDF");
        let sheet = b"/Type /Page\n";
        let sheets = file.windows(sheet.len()).filter(|part| part == sheet).count();
        if let Some(reader) = crate::find("pdftotext") {
            let shown = self.run(&reader, &["-raw", &self.arg(&pdf), "-"]).ok("pdftotext").text();
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            // A caption may be broken at other places, so words are compared.
            let (on_paper, lacking) = (words(&shown.replace('\u{a0}', " ")), words(&text));
            let lacking = lacking.into_iter().find(|word| word.len() > 3 && !on_paper.contains(word));
            assert_eq!(lacking, None, "{page}: not in the PDF: {shown}");
        }
        Printed { sheets, text, console: console.into_iter().map(str::to_owned).collect() }
    }
}
