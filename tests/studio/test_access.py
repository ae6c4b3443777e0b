"""Who gets an answer: hosts, tokens, origins, prefixes, and the headers of every answer."""

from __future__ import annotations

import pytest

from choqolate.errors import ChoqolateError
from choqolate.studio import create_app
from tests.browser import open_browser
from tests.studio.running import OWN, running

TOKEN = "a-token-that-nobody-can-guess"
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
}


def make_app(place, **options):
    options = {"save_to": place.folder / "never-saved", **options}
    return create_app(place.model, place.table, page=place.page, **options)


@pytest.fixture(scope="module")
def server(studio_place):
    with running(make_app(studio_place, allow_hosts=["hub.example.org"])) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(studio_place):
    with running(make_app(studio_place, token=TOKEN)) as server:
        yield server


EXPECTED_HOSTS = [
    "localhost",
    "LOCALHOST:1",
    "127.0.0.1",
    "127.0.0.1:65535",
    "127.1.2.3",
    "[::1]",
    "[::1]:80",
    "[0:0::1]:80",
    "hub.example.org",
    "HUB.example.org:443",
]
OTHER_HOSTS = [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil-localhost",
    "localhost.",
    "ada@localhost",
    "localhost@evil.example",
    "localhost:80:80",
    "localhost:port",
    "localhost:",
    "localhost/x",
    "::1",
    "[::1",
    "[::1].evil.example",
    "[::2]",
    "0.0.0.0",
    "192.168.1.1",
    "2130706433",
    "0x7f.1",
    "localhost,evil",
    "http://localhost",
    "hub.example.org.evil.example",
    "sub.hub.example.org",
    "locälhost",
]


@pytest.mark.parametrize("host", EXPECTED_HOSTS)
def test_hosts_that_are_expected(server, host):
    assert server.get("/api/bundle", Host=host).status == 200


@pytest.mark.parametrize("host", [*OTHER_HOSTS, "", "local host", "x" * 300])
def test_other_hosts_are_refused(server, host):
    answer = server.get("/", Host=host)
    assert answer.status == 400
    assert b"<!doctype" not in answer.body


def test_a_request_without_a_host_or_with_two_is_refused(server):
    for request in (
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    ):
        assert server.raw(request).split()[1] == b"400"


def test_an_absolute_address_does_not_replace_the_host(server):
    request = b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    assert server.raw(request).split()[1] == b"400"


@pytest.mark.parametrize("path", ["/", "/app/main.js", "/api/bundle", "/api/images/0", "/api/openapi.json", "/nothing"])
def test_every_answer_has_the_headers(server, path):
    for answer in (server.get(path), server.get(path, Host="evil.example"), server.ask("DELETE", path)):
        assert set(answer.headers["content-security-policy"].split("; ")) == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
        kept = path in ("/", "/app/main.js", "/api/images/0") and answer.status == 200
        assert ("no-store" not in answer.headers["cache-control"]) == kept


def test_what_the_browser_has_already_is_not_sent_again(server):
    for path in ("/", "/api/images/0"):
        first = server.get(path)
        again = server.get(path, **{"If-None-Match": first.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        assert server.get(path, **{"If-None-Match": '"another"'}).body == first.body


# ---------------------------------------------------------------------- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Choqolate-Studio": "0"},
        {**OWN, "Origin": "http://evil.example"},
        {**OWN, "Origin": "null"},
        {**OWN, "Origin": "http://localhost:1"},
        {**OWN, "Origin": "http://[broken"},
        {**OWN, "Sec-Fetch-Site": "cross-site"},
        {**OWN, "Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/api/model", "/api/score", "/api/numbers"])
def test_only_the_page_itself_can_ask_for_changes(server, path, headers):
    answer = server.ask("POST", path, {}, headers)
    assert (answer.status, answer.error) == (403, "Expected the request to come from the studio's own page.")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:5000", "Host": "localhost:5000"},
        {"Origin": "http://localhost:5000", "Host": "LOCALHOST:5000", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://hub.example.org", "Host": "127.0.0.1:5000"},  # the proxy has its own name for us
    ],
)
def test_the_page_can_ask(server, headers):
    assert server.post("/api/numbers", {}, **headers).status == 422


def test_preflights_of_other_sites_are_not_answered(server):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = server.ask("OPTIONS", "/api/model", headers=headers)
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


# ---------------------------------------------------------------------- tokens


@pytest.mark.parametrize("path", ["/", "/app/main.js", "/api/bundle", "/api/images/0", "/api/openapi.json", "/nothing"])
def test_nothing_is_told_without_the_token(guarded, path):
    for headers in (
        {},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN[:-1]}é"},
        {"Cookie": f"choqolate-studio={TOKEN}"},
    ):
        answer = guarded.get(path, **headers)
        assert answer.status == 401
        assert "token" in answer.error
    assert guarded.get(f"{path}?token=wrong").status == 401
    assert guarded.ask("POST", f"/api/model?token={TOKEN}", {}, OWN).status == 401


def test_the_token_in_the_address_becomes_a_cookie(guarded):
    answer = guarded.get(f"/?view=concept&token={TOKEN}&x=a%26b")
    assert (answer.status, answer.headers["location"], answer.body) == (303, "./?view=concept&x=a%26b", b"")
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert guarded.get("/", Cookie=f"other=1; {name}; more=2").status == 200
    assert guarded.get("/api/bundle", Cookie=name).status == 200
    assert guarded.post("/api/numbers", {}, Cookie=name).status == 422
    assert guarded.ask("POST", "/api/numbers", {}, {"Cookie": name}).status == 403
    assert guarded.get(f"/app/main.js?token={TOKEN}").headers["location"] == "./main.js"


def test_the_token_can_be_a_header(guarded):
    assert guarded.get("/api/bundle", Authorization=f"bearer {TOKEN}").status == 200


def test_with_a_token_addresses_in_digits_are_hosts(guarded, server):
    for host, status in (("192.168.1.1:8765", 200), ("[fe80::1]", 200), ("evil.example", 400)):
        assert guarded.get("/", Host=host, Authorization=f"Bearer {TOKEN}").status == status
        assert server.get("/", Host=host).status == 400


# ---------------------------------------------------------------------- behind a proxy


def stripping(app, prefix):
    """A proxy that removes its prefix, and knows nothing else."""

    async def proxy(scope, receive, send):
        assert scope["path"].startswith(f"{prefix}/")
        await app({**scope, "path": scope["path"].removeprefix(prefix)}, receive, send)

    return proxy


@pytest.mark.parametrize("strips", [True, False])
def test_it_works_behind_a_prefix(studio_place, strips):
    prefix = "/user/ada"
    app = make_app(studio_place, root_path=f"{prefix}/", token=TOKEN)
    with running(stripping(app, prefix) if strips else app) as server:
        entered = server.get(f"{prefix}/?token={TOKEN}")
        assert entered.headers["location"] == "./"
        name, *attributes = entered.headers["set-cookie"].split("; ")
        assert attributes[0] == "Path=/user/ada/"
        for path in ("", "app/main.js", "api/bundle", "api/images/0", "api/openapi.json"):
            assert server.get(f"{prefix}/{path}", Cookie=name).status == 200
        assert server.post(f"{prefix}/api/numbers", {}, Cookie=name).status == 422
        assert server.get(f"{prefix}/nothing", Cookie=name).status == 404
        assert server.get(f"{prefix}/api/openapi.json", Cookie=name).json["servers"] == [{"url": prefix}]


def test_a_browser_gets_the_whole_page_behind_a_prefix(studio_place):
    """The real page, with a token."""
    app = create_app(studio_place.model, studio_place.table, root_path="/user/ada", token=TOKEN)
    with running(stripping(app, "/user/ada")) as server, open_browser() as browser:
        page, said, asked = browser.new_page(), [], {}
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("response", lambda answer: asked.update({answer.url: answer.status}))
        start = f"http://localhost:{server.port}/user/ada/"
        page.goto(f"{start}?token={TOKEN}", wait_until="networkidle")
        assert said == []
        assert page.url.partition("#")[0] == start
        assert asked[f"{start}api/bundle"] == 200
        assert all(url.startswith(start) and status in (200, 303) for url, status in asked.items())
        assert page.evaluate("document.cookie") == ""
        images = page.evaluate("fetch('api/images/0').then((answer) => answer.blob()).then((blob) => blob.type)")
        assert images == "image/jpeg"


def test_the_root_without_its_slash_leads_to_the_page(studio_place):
    with running(make_app(studio_place, root_path="/user/ada")) as server:
        assert server.get("/user/ada").headers["location"] == "./ada/"
        assert server.get("/user/adamant").status == 404


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"root_path": "user"}, "Expected a root path"),
        ({"root_path": "/a b"}, "Expected a root path"),
        ({"root_path": "/a;x=1"}, "Expected a root path"),
        ({"allow_hosts": ["http://x"]}, "Expected the name of a host"),
        ({"allow_hosts": ["x:80"]}, "Expected the name of a host"),
        ({"allow_hosts": [""]}, "Expected the name of a host"),
        ({"token": "short"}, "Expected a token"),
        ({"token": "with; Path=/evil and more"}, "Expected a token"),
    ],
)
def test_bad_options_are_refused_at_the_start(studio_place, options, said):
    with pytest.raises(ChoqolateError, match=said):
        make_app(studio_place, **options)


def test_frames_of_other_pages_can_be_allowed(studio_place):
    with running(make_app(studio_place, frame_ancestors="'self' http://localhost:*")) as server:
        policy = server.get("/").headers["content-security-policy"]
        assert policy.endswith("frame-ancestors 'self' http://localhost:*")
