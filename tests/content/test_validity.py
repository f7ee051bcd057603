"""Which responses can serve as evidence, and what might help the others."""

# ruff: noqa: E501, RUF001  a row of a table is a line, in any script

from __future__ import annotations

from typing import Any

import pytest

from scrapy_dedup.content import Extraction, Judgement, ResponseFacts, is_html, judge
from scrapy_dedup.records import Recovery, Text, Validity

TEXT = Text("Closed.", "markdown", "x", "t", "n", None, None, None, 7, 1, "0" * 16, "simhash64-w3-1")
GOOD = Extraction("sha256:0", TEXT)
NONE = Extraction("sha256:0")


def facts(**changes: Any) -> ResponseFacts:
    usual = {"status": 200, "content_type": "text/html", "payload_bytes": 100, "extraction": GOOD}
    return ResponseFacts(**{**usual, **changes})


def failed(failure: str) -> Extraction:
    return Extraction("sha256:0", failure=failure)


@pytest.mark.parametrize(
    ("given", "validity", "reason", "recovery"),
    [
        pytest.param(facts(), "valid", None, "none", id="a short notice"),
        pytest.param(facts(status=206), "valid", None, "none", id="another 2xx"),
        pytest.param(facts(status=404), "http_error", "http_404", "none", id="404 with a text"),
        pytest.param(facts(status=410), "http_error", "http_410", "none", id="410"),
        pytest.param(facts(status=401), "http_error", "http_401", "authenticate", id="401"),
        pytest.param(facts(status=403), "http_error", "http_403", "authenticate", id="403"),
        pytest.param(facts(status=408), "http_error", "http_408", "retry", id="408"),
        pytest.param(facts(status=429), "http_error", "http_429", "retry", id="429"),
        pytest.param(facts(status=503), "http_error", "http_503", "retry", id="503"),
        pytest.param(facts(status=304), "http_error", "http_304", "none", id="a status that is no page"),
        pytest.param(
            facts(declared_valid=False, declared_reason="out of stock"),
            "unexpected_content", "out of stock", "none", id="the spider says so",
        ),
        pytest.param(
            facts(declared_valid=False), "unexpected_content", "declared_by_spider", "none", id="without a reason"
        ),
        pytest.param(facts(declared_valid=True, status=500), "http_error", "http_500", "retry", id="status first"),
        pytest.param(facts(payload_bytes=0, extraction=None), "empty", "no_body", "retry", id="no body"),
        pytest.param(
            facts(supported=False, content_type="application/pdf", extraction=None),
            "unsupported_type", "application/pdf", "none", id="PDF",
        ),
        pytest.param(
            facts(supported=False, content_type=None, extraction=None),
            "unsupported_type", "no_content_type", "none", id="no type",
        ),
        pytest.param(
            facts(extraction=failed("malformed_text")), "malformed_text", "lone_surrogate", "none", id="malformed"
        ),
        pytest.param(facts(extraction=failed("time_limit")), "extraction_failed", "time_limit", "retry", id="slow"),
        pytest.param(facts(extraction=failed("worker_died")), "extraction_failed", "worker_died", "retry", id="died"),
        pytest.param(
            facts(extraction=failed("input_over_cap")), "extraction_failed", "input_over_cap", "none", id="too large"
        ),
        pytest.param(
            facts(unmet_expectation="css: h1.price"), "unexpected_content", "css: h1.price", "none", id="expectation"
        ),
        pytest.param(facts(extraction=NONE), "empty", "no_main_text", "none", id="no text"),
        pytest.param(
            facts(extraction=Extraction("", flags=("scripted",))), "empty", "no_main_text", "render", id="scripts"
        ),
        pytest.param(
            facts(extraction=Extraction("", flags=("main_not_visible",))),
            "empty", "text_not_visible", "render", id="text that is not shown",
        ),
        pytest.param(facts(status=None), "valid", None, "none", id="a response without a status"),
    ],
)  # fmt: skip
def test_judge(given, validity, reason, recovery):
    judgement = judge(given)
    assert (judgement.validity, judgement.reason, judgement.recovery) == (
        Validity(validity),
        reason,
        Recovery(recovery),
    )


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        pytest.param("text/html; charset=utf-8", b"", True, id="declared"),
        pytest.param("Application/XHTML+XML", b"", True, id="XHTML"),
        pytest.param(None, b"\xef\xbb\xbf \n<!DOCTYPE html>", True, id="undeclared"),
        pytest.param("text/plain", b"<?xml version='1.0'?>\n<html xmlns='x'>", True, id="vague and XHTML"),
        pytest.param("text/plain", b"plain words", False, id="plain text"),
        pytest.param("image/png", b"<html>", False, id="a definite other type"),
        pytest.param(None, b"", False, id="nothing"),
        pytest.param("application/json", b"{}", False, id="JSON"),
    ],
)
def test_is_html(content_type, body, expected):
    assert is_html(content_type, body) is expected


# -- pages

SITE_URL = "http://site.invalid/a/page"
NAV = '<header><nav><a href="/">Start</a> <a href="/a/">Guide</a> <a href="/c/">Prices</a></nav></header>'
FOOT = '<footer><p>&copy; 2024 Birch Works. <a href="/imprint">Imprint</a></p></footer>'
SCRIPT = '<script src="/static/main.8f2c.js"></script>'
SENTENCE = (
    "The ferry leaves the north pier every twenty minutes from six in the morning until late at night. "
)


def document(body: str, title: str = "Birch Works", head: str = "", lang: str = "en") -> str:
    return (
        f'<!DOCTYPE html><html lang="{lang}"><head><meta charset="utf-8"><title>{title}</title>{head}</head>'
        f"<body>{body}</body></html>"
    )


def framed(main: str, title: str = "Birch Works", head: str = "", lang: str = "en") -> str:
    return document(f"{NAV}<main>{main}</main>{FOOT}", title, head, lang)


def own_address(url: str = SITE_URL) -> str:
    return f'<link rel="canonical" href="{url}">'


def judged(run: Any, html: str, url: str = SITE_URL, **more: Any) -> Judgement:
    body = html.encode()
    extraction = run(html) if body else None
    found = facts(payload_bytes=len(body), extraction=extraction, url=url, **more)
    return judge(found)


BLOCKED = {
    "English: a check of the browser": framed("<h1>Checking your browser</h1><p>This takes a moment.</p>"),
    "German: a captcha": document(
        '<h1>Kurze Prüfung</h1><p>Wählen Sie alle Ampeln.</p><div class="h-captcha"></div>', lang="de"
    ),
    "French: a question whether one is a robot": document(
        "<h1>Êtes-vous un robot ?</h1><p>Cochez la case pour passer.</p>", "Vérification", lang="fr"
    ),
    "Spanish: confirm that you are no robot": document(
        "<p>Confirma que no eres un robot para ver la página.</p>", "Tienda Roble", lang="es"
    ),
    "Portuguese: verify that you are human": document(
        "<h1>Verifique se você é humano</h1><p>Isso leva poucos segundos.</p>", lang="pt"
    ),
    "Italian: a check of the browser": document("<p>Verifica del browser in corso, resta in attesa.</p>", lang="it"),
    "Japanese: a robot check": document("<h1>確認</h1><p>ロボットではないことを確認するため、チェックしてください。</p>", lang="ja"),
    "Chinese: finish the verification": document("<h1>提示</h1><p>请完成安全验证后继续访问。</p>", lang="zh"),
    "Russian: confirm that you are no robot": document("<h1>Подтвердите, что вы не робот</h1>", lang="ru"),
    "a marker in a script": document(
        "<p>Wait.</p><script>window._cf_chl_opt = {cType: 'x'};</script>", "birch.invalid"
    ),
    "a captcha in a frame": document('<iframe src="https://geo.captcha-delivery.com/captcha/?x=1"></iframe>'),
    "an Imperva frame": document('<iframe src="/_Incapsula_Resource?CWUDNSAI=1">Request 99-1</iframe>'),
}  # fmt: skip

# Description, page, state, reason, recovery.
INVALID: list[tuple[str, str, str, str, str]] = [
    *((name, page, "blocked", "challenge", "retry") for name, page in BLOCKED.items()),
    ("denied by a server", document("<h1>403 Forbidden</h1><hr><center>nginx</center>", "403 Forbidden"), "blocked", "access_denied", "none"),
    ("German: denied", framed("<h1>Zugriff verweigert</h1><p>Wenden Sie sich an den Betreiber.</p>", lang="de"), "blocked", "access_denied", "none"),
    ("Japanese: denied", document("<h1>アクセスが拒否されました</h1><p>管理者にお問い合わせください。</p>", lang="ja"), "blocked", "access_denied", "none"),
    ("Russian: denied", document("<h1>Доступ запрещён</h1><p>Обратитесь к владельцу сайта.</p>", lang="ru"), "blocked", "access_denied", "none"),
    ("too many requests", document("<h1>Too Many Requests</h1><p>Slow down a little.</p>", "429"), "blocked", "rate_limit", "retry"),
    ("French: too many requests", document("<h1>Trop de requêtes</h1>", lang="fr"), "blocked", "rate_limit", "retry"),
    ("Spanish: not in your country", framed("<p>Este contenido no está disponible en tu país por motivos de licencia.</p>", lang="es"), "blocked", "geo_block", "none"),
    ("Chinese: not in your region", document("<p>您所在的地区无法访问此内容。</p>", "提示", lang="zh"), "blocked", "geo_block", "none"),
    ("Italian: a form to sign in", framed('<h1>Accedi</h1><form><label>Utente<input name="u"></label><label>Parola<input type="password"></label><button>Entra</button></form>', lang="it"), "login", "login_wall", "authenticate"),
    ("Chinese: a form to sign in", document('<h1>用户登录</h1><form><input name="user"><input type="password"><button>登录</button></form>', lang="zh"), "login", "login_wall", "authenticate"),
    ("Dutch: a password and nothing else", document('<form><input name="naam"><input type="password"><button>Inloggen</button></form>', "Berk", lang="nl"), "login", "login_wall", "authenticate"),
    ("an address first, the password later", framed('<h1>Sign in</h1><form><input type="email" name="email"><button>Next</button></form>'), "login", "login_wall", "authenticate"),
    ("Portuguese: asked to sign in without a form", framed("<h1>Conteúdo</h1><p>Faça login para continuar a leitura.</p>", lang="pt"), "login", "login_wall", "authenticate"),
    ("German: a question about the age", document('<h1>Willkommen</h1><p>Sind Sie mindestens 18 Jahre alt?</p><a href="?j=1">Ja</a> <a href="?j=0">Nein</a>', "Weinhandel", lang="de"), "consent", "age_gate", "authenticate"),
    ("Japanese: a question about the age", document('<h2>年齢確認</h2><p>あなたは20歳以上ですか？</p><a href="?y">はい</a> <a href="?n">いいえ</a>', "酒店", lang="ja"), "consent", "age_gate", "authenticate"),
    ("Russian: a question about the age", document('<p>Вам есть 18 лет?</p><a href="?y">Да</a> <a href="?n">Нет</a>', "Винный погреб", lang="ru"), "consent", "age_gate", "authenticate"),
    ("French: a cookie wall", document("<h1>Avant de continuer</h1><p>Nous utilisons des cookies pour mesurer l'audience.</p><button>Tout accepter</button><button>Refuser</button>", lang="fr"), "consent", "cookie_wall", "authenticate"),
    ("Italian: a cookie wall without a heading", document("<p>Utilizziamo i cookie per offrirti la migliore esperienza.</p><button>Accetta</button>", "Il Corriere della Betulla", lang="it"), "consent", "cookie_wall", "authenticate"),
    ("an empty root and a menu", document(f'{NAV}<div id="root"></div>{FOOT}{SCRIPT}'), "js_required", "empty_mount", "render"),
    ("an app that names itself", document(f'<div id="__next"><h1>Birch Works</h1></div>{SCRIPT}', "Birch Works | Console"), "js_required", "empty_mount", "render"),
    ("an Angular app that loads", document(f"<app-root>Loading...</app-root>{SCRIPT}"), "js_required", "empty_mount", "render"),
    ("German: a spinner", framed(f'<div class="spinner">Wird geladen…</div>{SCRIPT}', lang="de"), "js_required", "spinner", "render"),
    ("French: a spinner", framed(f'<div class="loader">Chargement en cours…</div>{SCRIPT}', lang="fr"), "js_required", "spinner", "render"),
    ("Spanish: a spinner", framed(f'<p class="loading">Cargando...</p>{SCRIPT}', lang="es"), "js_required", "spinner", "render"),
    ("Portuguese: a spinner", framed(f'<div class="spinner">Carregando…</div>{SCRIPT}', lang="pt"), "js_required", "spinner", "render"),
    ("Italian: a spinner", framed(f'<div class="spinner">Caricamento in corso</div>{SCRIPT}', lang="it"), "js_required", "spinner", "render"),
    ("Japanese: a spinner", framed(f'<div class="spinner">読み込み中です…</div>{SCRIPT}', lang="ja"), "js_required", "spinner", "render"),
    ("Chinese: a spinner", framed(f'<div class="spinner">加载中...</div>{SCRIPT}', lang="zh"), "js_required", "spinner", "render"),
    ("Russian: a spinner", framed(f'<div class="spinner">Загрузка…</div>{SCRIPT}', lang="ru"), "js_required", "spinner", "render"),
    ("English: a spinner", framed(f'<div class="spinner">Loading...</div>{SCRIPT}'), "js_required", "spinner", "render"),
    ("a spinner without a word", document(f'<div class="spinner"></div>{SCRIPT}'), "js_required", "spinner", "render"),
    ("a notice in noscript", document(f"<noscript>You need JavaScript for this.</noscript><div></div>{SCRIPT}"), "js_required", "noscript_notice", "render"),
    ("Russian: a notice that is shown", document(f"<p>Включите JavaScript, чтобы пользоваться сайтом.</p>{SCRIPT}", lang="ru"), "js_required", "noscript_notice", "render"),
    ("English: nothing under this address", framed("<h1>Oops!</h1><p>The page you are looking for might have been moved.</p>"), "soft_404", "title_phrase", "none"),
    ("German: not found", framed("<h1>Seite nicht gefunden</h1><p>Versuchen Sie die Suche.</p>", lang="de"), "soft_404", "title_phrase", "none"),
    ("French: not found, in the title only", framed("<p>Utilisez le menu pour continuer votre visite.</p>", "Page non trouvée | Bouleau", lang="fr"), "soft_404", "title_phrase", "none"),
    ("Spanish: not found", framed("<h1>Error 404</h1><p>Lo sentimos, la página que buscas ya no está.</p>", lang="es"), "soft_404", "title_phrase", "none"),
    ("Portuguese: not found", framed("<h1>Página não encontrada</h1>", lang="pt"), "soft_404", "title_phrase", "none"),
    ("Italian: not found", framed("<h1>Ops!</h1><p>La pagina che stai cercando non esiste.</p>", lang="it"), "soft_404", "title_phrase", "none"),
    ("Japanese: not found", framed("<h1>お探しのページは見つかりませんでした</h1>", lang="ja"), "soft_404", "title_phrase", "none"),
    ("Chinese: not found", framed("<h1>抱歉</h1><p>您访问的页面不存在或已被删除。</p>", lang="zh"), "soft_404", "title_phrase", "none"),
    ("Russian: not found", framed("<h1>Страница не найдена</h1><p>Проверьте адрес.</p>", lang="ru"), "soft_404", "title_phrase", "none"),
    ("a number alone", framed("<h1>404</h1>"), "soft_404", "title_phrase", "none"),
    ("a server's error page", document("<h1>502 Bad Gateway</h1><hr>", "502 Bad Gateway"), "error_page", "error_template", "retry"),
    ("Spanish: something went wrong", framed("<h1>Algo salió mal</h1><p>Inténtalo más tarde.</p>", lang="es"), "error_page", "error_template", "retry"),
    ("Chinese: a server error", document("<h1>服务器内部错误</h1>", lang="zh"), "error_page", "error_template", "retry"),
    ("Portuguese: an error", framed("<p>Ocorreu um erro ao processar o pedido.</p>", lang="pt"), "error_page", "error_template", "retry"),
    ("Italian: maintenance", document("<h1>Sito in manutenzione</h1><p>A presto!</p>", lang="it"), "error_page", "maintenance", "retry"),
    ("Japanese: maintenance", document("<h1>お知らせ</h1><p>ただいまメンテナンス中です。</p>", lang="ja"), "error_page", "maintenance", "retry"),
    ("French: no database", document("<h1>Erreur lors de la connexion à la base de données</h1>", lang="fr"), "error_page", "database_error", "retry"),
    ("a Python traceback", document("<pre>Traceback (most recent call last):\n  File 'app.py', line 3\nKeyError: 'id'</pre>", ""), "error_page", "stack_trace", "retry"),
    ("a PHP error", document("<b>Fatal error</b>: Uncaught Error: Call to undefined function f() in /srv/a.php:3 on line 3"), "error_page", "stack_trace", "retry"),
    ("a debugger, at any length", document(f"<h1>KeyError</h1><p>{SENTENCE * 60}</p>", "KeyError: 'id' // Werkzeug Debugger"), "error_page", "stack_trace", "retry"),
    ("a domain for sale", document("<h1>birch.invalid</h1><p>This domain is for sale. Make an offer today.</p>"), "placeholder", "parked_domain", "none"),
    ("German: a domain for sale", document("<p>Diese Domain steht zum Verkauf. Fragen Sie uns nach dem Preis.</p>", lang="de"), "placeholder", "parked_domain", "none"),
    ("a new web server", document("<h1>Welcome to nginx!</h1><p>If you see this page, the web server works. Further configuration is required.</p>", "Welcome to nginx!"), "placeholder", "default_page", "none"),
    ("a default page, at length", document(f"<p>{SENTENCE * 12}</p>", "Apache2 Debian Default Page: It works"), "placeholder", "default_page", "none"),
    ("filler text", framed("<h1>Our story</h1><p>Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.</p>"), "placeholder", "lorem_ipsum", "none"),
    ("Russian: under construction", document("<h1>Сайт в разработке</h1>", lang="ru"), "placeholder", "under_construction", "none"),
    ("a refresh at once", document('<p>Moved.</p>', head='<meta http-equiv="Refresh" content="0; URL=/b/new">'), "redirect_stub", "meta_refresh: http://site.invalid/b/new", "none"),
    ("a refresh in noscript beside a script", document('<p><a href="../v2/">v2</a></p>', "Redirecting", '<noscript><meta http-equiv="refresh" content="1; url=../v2/"></noscript><script>window.location.replace("../v2/" + window.location.hash);</script>'), "redirect_stub", "meta_refresh: http://site.invalid/v2/", "none"),
    ("a script at once", document("<script>window.location.href = 'https://other.invalid/x';</script>"), "redirect_stub", "script_redirect: https://other.invalid/x", "none"),
    ("a script when the page is loaded", '<html><head><title></title></head><body onload="location.replace(\'/b\')"></body></html>', "redirect_stub", "script_redirect: http://site.invalid/b", "none"),
    ("a script after a while, and words", document("<p>Sie werden weitergeleitet, bitte haben Sie Geduld.</p><script>function go() { location.assign('/neu'); }\nsetTimeout(go, 500)</script>", lang="de"), "redirect_stub", "script_redirect: http://site.invalid/neu", "none"),
    ("words about a new address", document('<h1>Object moved</h1><p>This page has moved to <a href="/n">here</a>.</p>', "Object moved"), "redirect_stub", "title_phrase", "none"),
    ("a title of a large site", document("<p>That’s an error.</p><p>The requested URL <code>/foo</code> was not found on this server.</p>", "Error 404 (Not Found)!!1"), "soft_404", "title_phrase", "none"),
    ("one must be of age to enter", document("<p>You must be 21 years or older to enter our cellar.</p>", "Wine"), "consent", "age_gate", "authenticate"),
    ("no text at all", document('<img src="a.png" alt="">'), "empty", "no_main_text", "none"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("html", "state", "reason", "recovery"), [pytest.param(*row, id=name) for name, *row in INVALID]
)
def test_a_page_that_stands_in_for_another_is_told_apart(run, html, state, reason, recovery):
    judgement = judged(run, html)

    said = (judgement.explained or "").partition(": ")
    found = judgement.explained if said[0] in ("meta_refresh", "script_redirect") else said[0]
    assert (judgement.validity.value, found, judgement.recovery.value) == (state, reason, recovery)


FORM = '<form><input name="name"><input type="email" name="email"><textarea name="text"></textarea>{}<button>Send</button></form>'
PASSIVE = '<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script><script src="/_Incapsula_Resource?SWJIYLWA=7"></script><script src="https://js.datadome.co/tags.js"></script>'

VALID: list[tuple[str, str]] = [
    ("English: a short notice", framed("<h1>Holiday</h1><p>The library is closed on Monday.</p>")),
    ("German: a short notice", framed("<h1>Öffnungszeiten</h1><p>Am Montag bleibt das Bad zu.</p>", lang="de")),
    ("French: a short notice", framed("<h1>Avis</h1><p>Le marché est annulé samedi.</p>", lang="fr")),
    ("Spanish: a short notice", framed("<h1>Aviso</h1><p>La piscina abre a las diez.</p>", lang="es")),
    ("Portuguese: a short notice", framed("<h1>Aviso</h1><p>A biblioteca fecha ao meio-dia.</p>", lang="pt")),
    ("Italian: a short notice", framed("<h1>Avviso</h1><p>Il museo è chiuso il lunedì.</p>", lang="it")),
    ("Japanese: a short notice", framed("<h1>お知らせ</h1><p>月曜日は休館です。</p>", lang="ja")),
    ("Chinese: a short notice", framed("<h1>通知</h1><p>图书馆周一闭馆。</p>", lang="zh")),
    ("Russian: a short notice", framed("<h1>Объявление</h1><p>В понедельник музей закрыт.</p>", lang="ru")),
    ("German: a notice that begins like an apology", framed("<h1>Speiseplan</h1><p>Leider gibt es heute keine Suppe.</p>", lang="de")),
    ("German: where something is being built", framed("<h1>Birkenplatz</h1><p>Hier entsteht bis Mai ein Spielplatz.</p>", lang="de")),
    ("Japanese: delivery to a region", framed("<h1>配送</h1><p>お住まいの地域では翌日に届きます。</p>", lang="ja")),
    ("Chinese: what to do after signing in", framed("<h1>设置</h1><p>登录后，点击右上角的头像即可修改密码。</p>", lang="zh")),
    ("planned maintenance is a notice", framed("<h1>Scheduled maintenance</h1><p>On 5 March the pumps rest from two to four.</p>", "Scheduled maintenance - Birch Works")),
    ("how to maintain a thing", framed("<h1>Maintenance</h1><p>Clean the filter once a month.</p>", "Maintenance | Manual")),
    ("a manual about a status, which declares its address", framed("<h1>403 Forbidden</h1><p>The key lacks the scope for this call.</p>", "403 Forbidden", own_address())),
    ("a manual about a status, with code", framed("<h1>404 Not Found</h1><p>Returned by <code>GET /v1/jobs</code> for a job that ended.</p><pre>raise NotFound(job)</pre>")),
    ("a manual about signing in", framed("<h1>Sign in</h1><p>Open the menu and choose your account.</p>", "Sign in - Handbook")),
    ("a manual about redirects", framed("<h1>Redirect</h1><p>Sends the client to another route.</p>", "Redirect | API")),
    ("an article about errors at length", framed(f"<h1>Page not found</h1><p>{SENTENCE * 5}</p>", "Page not found")),
    ("a text that quotes a refusal", framed("<h1>Why the feed stopped</h1><p>Since May their server says “Access denied” to us, and we asked why.</p>")),
    ("a list of statuses", framed("<ul><li>Access denied: 403</li><li>Page not found: 404</li><li>Too many requests: 429</li></ul>", "Answers")),
    ("a table of answers", framed("<table><tr><th>Code</th><th>Text</th></tr><tr><td>404</td><td>Page not found</td></tr></table>", "Answers")),
    ("nothing but code", framed("<pre><code>import birch\nbirch.cut(3)\n</code></pre>", "cut.py")),
    ("code that prints a traceback", framed("<h1>Reading a traceback</h1><pre>Traceback (most recent call last):\n  File 'a.py', line 1\nZeroDivisionError</pre><p>The last line names the error.</p>")),
    ("a question about an error, named like it", document(f"<h1>OperationalError at /admin/</h1><p>{SENTENCE * 3}</p>", "django - OperationalError at /admin/ - Questions")),
    ("a form to write to us, with a captcha", framed('<h1>Write to us</h1><p>We answer within a day.</p>' + FORM.format('<div class="g-recaptcha"></div>'))),
    ("a captcha for the newsletter in the footer", document(f'{NAV}<main><h1>Tides</h1><p>High water at noon.</p></main><footer><form><input type="email"><div class="h-captcha"></div></form></footer>')),
    ("marks that services leave on every page", framed("<h1>Tides</h1><p>High water at noon.</p>" + PASSIVE)),
    ("a form to sign in inside the menu", document('<nav><form><input name="user"><input type="password"></form></nav><main><h1>Tides</h1><p>High water at noon.</p></main>')),
    ("a form to sign in that a click opens", document('<main><h1>Tides</h1><p>High water at noon.</p></main><div class="modal" id="login"><h2>Sign in</h2><input type="password"></div>')),
    ("a post that one must sign in to comment on", framed("<h1>First swim</h1><p>The lake had nine degrees.</p><p>You must be logged in to post a comment.</p>")),
    ("a cookie banner above a short page", document("<div class='cc-window'><p>We use cookies.</p><button>Accept</button></div><main><h1>Tides</h1><p>High water is at noon today, low water at six, and the gates of the harbour close one hour before that.</p></main>")),
    ("a page about cookies", framed("<h1>Cookies</h1><p>We use cookies to remember the language.</p>", "Cookies")),
    ("a page about the age of trees", framed("<h1>How old is a birch?</h1><p>Most are younger than 80 years.</p>")),
    ("a short page beside an empty node", document(f'<main><h1>Tides</h1><p>High water at noon.</p></main><div id="app"></div>{SCRIPT}')),
    ("a page rendered by the server", document(f'<div id="__next"><main><h1>Tides</h1><p>High water at noon.</p></main></div>{SCRIPT}')),
    ("a short page that asks for scripts in noscript", framed(f"<noscript>Please enable JavaScript.</noscript><h1>Tides</h1><p>High water at noon.</p>{SCRIPT}")),
    ("an index of links with a notice in noscript", framed("<noscript>Enable JavaScript to search.</noscript><h1>Guide</h1><ul>" + "".join(f'<li><a href="/a/{n}">Chapter {n} on the care of birches</a></li>' for n in range(9)) + f"</ul>{SCRIPT}", "Guide")),
    ("a page about loading", framed("<h1>Loading</h1><p>Put the logs on the left side first.</p>", "Loading")),
    ("a page that reloads itself", document("<h1>Tides</h1><p>High water at noon.</p>", head='<meta http-equiv="refresh" content="300">')),
    ("a page that moves on after a minute", document("<h1>Slide 1</h1><p>Birch bark is white.</p>", head='<meta http-equiv="refresh" content="60; url=/slide2">')),
    ("a page for visitors without scripts", framed("<h1>Tides</h1><p>High water at noon.</p>", head='<noscript><meta http-equiv="refresh" content="0; url=/plain"></noscript>')),
    ("a script that sends away when asked", framed("<p>No changes.</p><script>function out() { window.location.href = '/logout'; }</script>", "Changes")),
    ("a script that sends away on a condition", framed("<h1>Tides</h1><p>High water at noon.</p><script>if (top !== self) top.location.href = '/tides';</script>")),
    ("films that are coming soon", framed("<h1>Coming soon</h1>" + "".join(f'<p><a href="/f/{n}">The birch forest, part {n}</a></p>' for n in range(9)), "Coming soon")),
    ("an article about filler text", framed(f"<h1>Lorem ipsum</h1><p>The words lorem ipsum come from a text by Cicero. {SENTENCE}</p>")),
    ("an article about default pages", framed(f"<h1>It works</h1><p>{SENTENCE * 12}</p>", "It works")),
    ("a domain in the news", framed("<h1>Town sells its domain</h1><p>The council says that the domain is for sale.</p>")),
    ("one must be of age to buy", framed("<h1>Our wines</h1><p>You must be 18 or over to buy.</p><ul><li>Red, 12 euros</li></ul>")),
    ("Japanese: no wine for the young", framed("<h1>ワイン</h1><p>20歳未満の方への酒類の販売はいたしません。</p>", lang="ja")),
    ("Spanish: what is coming soon", framed("<h1>Próximamente</h1><ul><li>El abedul, 3 de mayo, teatro municipal, entrada libre</li><li>La lluvia, 9 de mayo, plaza mayor, de ocho a diez</li></ul>", "Próximamente", lang="es")),
    ("an article named after a default page", framed(f"<h1>Test pages</h1><p>{SENTENCE * 12}</p>", "Apache2 Debian Default Page - what it means")),
    ("a short notice beside a button", framed('<h1>Holiday</h1><p>Closed on Monday.</p><form><input name="q"><button>Search</button></form>')),
    ("a name like a number", framed("<h1>500</h1><p>So many birches stand in the park.</p>", "500")),
]  # fmt: skip


@pytest.mark.parametrize("html", [pytest.param(html, id=name) for name, html in VALID])
def test_a_real_page_is_valid_however_short_and_whatever_it_is_about(run, html):
    judgement = judged(run, html)

    assert (judgement.validity.value, judgement.explained) == ("valid", None)


def test_the_tables_of_pages_are_large():
    assert len(INVALID) >= 60
    assert len(VALID) >= 40


WALL = framed("<h1>Page not found</h1>")


def test_the_word_of_the_spider_stands_above_what_a_page_says(run):
    assert judged(run, WALL).validity is Validity.SOFT_404
    assert judged(run, WALL, declared_valid=True, declared_reason="a poem").validity is Validity.VALID


def test_a_404_file_is_none_even_if_it_declares_its_address(run):
    page = framed("<h1>404 - Not found</h1>", head=own_address("http://site.invalid/v2/404.html"))

    assert judged(run, page, url="http://site.invalid/v2/404.html").validity is Validity.SOFT_404
    assert judged(run, page, url="http://site.invalid/docs/http/404.html").validity is Validity.SOFT_404
    kept = framed("<h1>404 - Not found</h1>", head=own_address("http://site.invalid/docs/http/404"))
    assert judged(run, kept, url="https://site.invalid/docs/http/404/").validity is Validity.VALID


def test_a_page_leads_nowhere_when_it_leads_to_itself(run):
    page = document("<p>Tides</p>", head='<meta http-equiv="refresh" content="0; url=/a/page#top">')

    assert judged(run, page).validity is not Validity.REDIRECT_STUB


def test_the_target_of_a_stub_is_resolved_against_the_base_and_shows_no_password(run):
    head = '<base href="http://u:secret@cdn.invalid/x/"><meta http-equiv="refresh" content="0; url=y">'

    judgement = judged(run, document("", head=head))

    assert judgement.reason == "meta_refresh"
    assert "cdn.invalid/x/y" in (judgement.evidence or "")
    assert "secret" not in (judgement.evidence or "")


RESPONSES = [
    ("a challenge by its header, with any status", facts(status=403, headers={"cf-mitigated": "challenge"}), "blocked", "challenge: cf-mitigated challenge", "retry"),
    ("a challenge of another service", facts(status=202, headers={"x-amzn-waf-action": "Captcha"}), "blocked", "challenge: x-amzn-waf-action Captcha", "retry"),
    ("denied by a header", facts(headers={"x-vercel-mitigated": "deny"}), "blocked", "access_denied: x-vercel-mitigated deny", "none"),
    ("a header with another value", facts(headers={"cf-mitigated": "none"}), "valid", None, "none"),
    ("not for legal reasons", facts(status=451), "blocked", "geo_block", "none"),
    ("bytes lost on the way", facts(flags=frozenset({"dataloss"})), "truncated", "dataloss", "retry"),
    ("cut by the end of the connection", facts(flags=frozenset({"partial"}), end="missing"), "truncated", "partial", "retry"),
    ("ended by the end of the connection", facts(flags=frozenset({"partial"}), end="seen"), "valid", None, "none"),
    ("a fragment that ends with its connection", facts(flags=frozenset({"partial"}), end="unknown"), "valid", None, "none"),
    ("shorter than declared", facts(declared_bytes=900, end="missing"), "truncated", "content_length: 800 bytes missing", "retry"),
    ("shorter than declared but complete", facts(declared_bytes=900, end="seen"), "valid", None, "none"),
    ("a little longer when compressed", facts(declared_bytes=120), "valid", None, "none"),
    ("longer than declared", facts(declared_bytes=10), "valid", None, "none"),
    ("truncated before its type matters less", facts(supported=False, content_type="image/png", flags=frozenset({"dataloss"})), "unsupported_type", "image/png", "none"),
    ("what the site says to any URL", facts(equals_probe=True), "soft_404", "probe_equal", "none"),
    ("what is vouched for is not probed", facts(equals_probe=True, declared_valid=True), "valid", None, "none"),
    ("a probe says more than an expectation", facts(equals_probe=True, unmet_expectation="no text 'x'"), "soft_404", "probe_equal", "none"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "state", "explained", "recovery"), [pytest.param(*row, id=name) for name, *row in RESPONSES]
)
def test_what_a_response_says_of_itself(given, state, explained, recovery):
    judgement = judge(given)

    assert (judgement.validity.value, judgement.explained, judgement.recovery.value) == (
        state,
        explained,
        recovery,
    )
