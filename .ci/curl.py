"""What `.ci/curl` asks of `mendpath serve`: curl.py PROGRAM FOLDER."""

import atexit
import gzip
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

from curl_cffi import CurlHttpVersion, CurlOpt, requests

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])


class Backend(http.server.BaseHTTPRequestHandler):
    """Says what has come."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        said = f"{len(body)} {hashlib.sha256(body).hexdigest()}".encode()
        self.send_response(201)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


def serve(*arguments):
    """Starts a server; returns its process and port."""
    command = [program, "serve", "--listen", "127.0.0.1:0", *arguments]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    # Where something is not as it should be: it would hold our output, and who reads that would wait for it.
    atexit.register(server.kill)
    for line in server.stderr:
        if found := re.search(r"HTTP/3 on UDP 127\.0\.0\.1:(\d+)", line):
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server, int(found[1])
    sys.exit(f"{' '.join(command)}: ended")


class Client:
    """A session by HTTP/3 alone."""

    def __init__(self, port):
        self.base = f"https://localhost:{port}"
        self.session = requests.Session(verify=False, http_version=CurlHttpVersion.V3ONLY, timeout=60)

    def ask(self, method, path, **more):
        response = self.session.request(method, self.base + path, **more)
        assert response.http_version == CurlHttpVersion.V3, response.http_version
        return response


def check(what, is_so):
    assert is_so, what
    print(f"ok: {what}")


def files():
    root = folder / "root"
    root.mkdir()
    large = os.urandom(3_000_000)
    text = b"a line of text\n" * 1_000
    (root / "large.bin").write_bytes(large)
    (root / "page.html").write_bytes(text)
    server, port = serve("--root", str(root))
    client = Client(port)
    answer = client.ask("GET", "/large.bin")
    check("a file of 3 MB", answer.status_code == 200 and answer.content == large)
    answer = client.ask("GET", "/large.bin", headers={"range": "bytes=1000000-1000009"})
    check("a part of it", answer.status_code == 206 and answer.content == large[1_000_000:1_000_010])
    tag = client.ask("HEAD", "/large.bin").headers["etag"]
    answer = client.ask("GET", "/large.bin", headers={"if-none-match": tag})
    check("nothing where it is known", answer.status_code == 304 and answer.content == b"")
    options = {CurlOpt.HTTP_CONTENT_DECODING: 0}
    raw = requests.Session(
        verify=False, http_version=CurlHttpVersion.V3ONLY, curl_options=options, default_headers=False
    )
    answer = raw.get(f"{client.base}/page.html", headers={"accept-encoding": "gzip"})
    is_packed = answer.headers.get("content-encoding") == "gzip"
    check("text, packed on the way", is_packed and gzip.decompress(answer.content) == text)
    check("what is not there", client.ask("GET", "/nothing").status_code == 404)
    bodies = [client.ask("GET", f"/page.html?{n}").content for n in range(200)]
    check("200 requests over one connection", bodies == [text] * 200)
    if curl := shutil.which("curl"):
        if "HTTP3" in subprocess.run([curl, "--version"], capture_output=True, text=True).stdout:
            command = [curl, "--http3-only", "--insecure", "--silent", "--fail", f"{client.base}/large.bin"]
            check("curl --http3-only", subprocess.run(command, capture_output=True).stdout == large)
        else:
            print("NOT CHECKED: curl --http3-only, which the program curl here is too old for")
    server.terminate()
    check("the server ends", server.wait(60) == 0)


def backend():
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    threading.Thread(target=host.serve_forever, daemon=True).start()
    server, port = serve("--proxy", f"http://127.0.0.1:{host.server_port}")
    client = Client(port)
    for size in (0, 1, 2_000_000):
        body = os.urandom(size)
        answer = client.ask("POST", "/", data=body, headers={"content-type": "application/octet-stream"})
        said = f"{size} {hashlib.sha256(body).hexdigest()}"
        check(f"{size} bytes for a backend", answer.status_code == 201 and answer.text == said)
    server.terminate()
    check("the server ends", server.wait(60) == 0)


files()
backend()
