//! nginx as a reverse proxy, set up as its manual says for keep-alive on both sides and for streams.

use std::net::SocketAddr;

use crate::contender::Contender;
use crate::folder::Folder;
use crate::process::{self, Server};

/// Debian's package has it in the path.
pub(crate) const PROGRAM: &str = "nginx";

pub(crate) fn start(contender: &Contender, upstream: SocketAddr) -> anyhow::Result<Server> {
    let (folder, address) = (Folder::new()?, process::free_address()?);
    let place = folder.path().display().to_string();
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, configuration(&place, address, upstream))?;
    let words = ["-p", &place, "-c", &file.display().to_string()];
    Server::start_program(PROGRAM.as_ref(), &words, contender.name, address, folder)
}

/// One process, as the others are; it is measured by its own CPU clock.
fn configuration(place: &str, address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "daemon off;
master_process off;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    keepalive_requests 1000000000;
    upstream agent {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}
    server {{
        listen {address};
        location / {{
            proxy_pass http://agent;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_buffering off;
        }}
    }}
}}
"
    )
}
