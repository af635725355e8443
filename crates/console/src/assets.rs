//! The files of the page, as built by `web/build.mjs`. They contain no data, so anyone may read them.

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

/// Returns the file at a path.
pub(crate) fn asset(path: &str) -> Option<Asset> {
    let (content_type, bytes): (&str, &[u8]) = match path {
        "/" | "/index.html" => ("text/html; charset=utf-8", include_bytes!("../web/dist/index.html")),
        "/console.js" => ("text/javascript; charset=utf-8", include_bytes!("../web/dist/console.js")),
        "/console.css" => ("text/css; charset=utf-8", include_bytes!("../web/dist/console.css")),
        "/icon.svg" => ("image/svg+xml", include_bytes!("../web/dist/icon.svg")),
        _ => return None,
    };
    Some(Asset { content_type, bytes })
}
