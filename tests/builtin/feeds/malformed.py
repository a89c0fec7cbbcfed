"""Feeds as they should not be: each is read or refused, none raises."""

from tests.builtin.feeds.scripted import entry, feed

GOOD = feed([entry(2), entry(1)])

MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "spaces": b" \n\t ",
    "nul bytes": b"\x00" * 500,
    "random bytes": bytes(range(256)) * 20,
    "html page": b"<!DOCTYPE html><html><head><title>Log in</title></head><body><form></form></body></html>",
    "html without doctype": b"<html><body><rss>not really</rss></body></html>",
    "other xml": b"<?xml version='1.0'?><opml><body/></opml>",
    "soap": b"<soap:Envelope xmlns:soap='x'><soap:Body/></soap:Envelope>",
    "plain text": b"502 Bad Gateway",
    "only a declaration": b"<?xml version='1.0' encoding='utf-8'?>",
    "open comment": b"<!-- <rss><channel/></rss>",
    "open instruction": b"<?xml version='1.0'",
    "cut in the middle": GOOD.encode()[:400],
    "cut in a cdata": GOOD.encode()[: GOOD.index("<![CDATA[") + 14],
    "never closed": GOOD.encode().replace(b"</item>", b""),
    "crossed tags": b"<rss><channel><item><title><b>x</title></b></item></channel></rss>",
    "bare ampersands": b"<rss><channel><item><title>A & B &copy; &nbsp; &undefined; &#0; &#xD800;</title><guid>1</guid></item></channel></rss>",
    "bare less-than": b"<rss><channel><item><title>1 < 2</title><guid>1</guid></item></channel></rss>",
    "control characters": b"<rss><channel><item><title>a\x01\x08\x1b[31m</title><guid>\x02g</guid></item></channel></rss>",
    "unquoted attribute": b"<rss version=2.0><channel><item><guid isPermaLink=false>1</guid></item></channel></rss>",
    "no namespace": b"<feed><entry><id>1</id><title>x</title></entry></feed>",
    "undeclared prefix": b"<rss><channel><item><foo:bar>x</foo:bar><guid>1</guid></item></channel></rss>",
    "wrong encoding label": "<?xml version='1.0' encoding='utf-8'?><rss><channel><item><title>naïve</title></item></channel></rss>".encode(
        "cp1252"
    ),
    "unknown encoding label": b"<?xml version='1.0' encoding='klingon'?><rss><channel><item><guid>1</guid></item></channel></rss>",
    "utf-7 label": b"<?xml version='1.0' encoding='utf-7'?><rss><channel><item><title>+ADw-script+AD4-</title><guid>1</guid></item></channel></rss>",
    "utf-16 label on ascii": b"<?xml version='1.0' encoding='utf-16'?><rss><channel><item><guid>1</guid></item></channel></rss>",
    "utf-16 without mark": GOOD.encode("utf-16-le"),
    "two declarations": b"<?xml version='1.0'?><?xml version='1.0'?><rss><channel><item><guid>1</guid></item></channel></rss>",
    "junk before": b"Warning: something in line 3\n" + GOOD.encode(),
    "junk after": GOOD.encode() + b"<script>x</script><rss>",
    "two roots": GOOD.encode() + GOOD.encode(),
    "nested deeply": b"<rss><channel><item><title>" + b"<a>" * 100_000 + b"</title></item></channel></rss>",
    "many attributes": b"<rss><channel><item "
    + b" ".join(b"a%d='1'" % n for n in range(20_000))
    + b"><guid>1</guid></item></channel></rss>",
    "nested namespaces": b"<rss><channel>" + b"<a xmlns:n='u'>" * 50_000 + b"</rss>",
    "nested prefixes": b"<rss><channel>" + b"".join(b"<a xmlns:n%d='u'>" % n for n in range(20_000)) + b"</rss>",
    "huge title": b"<rss><channel><item><title>" + b"x" * 1_000_000 + b"</title></item></channel></rss>",
    "misnested formatting in an entry": b"<rss><channel><item><guid>1</guid><description><![CDATA["
    + b"".join(b"<p><b a=%d>x" % n for n in range(4_000))
    + b"]]></description></item></channel></rss>",
    "items of nothing": b"<rss><channel>" + b"<item/>" * 100 + b"</channel></rss>",
    "bad dates": b"<rss><channel><item><guid>1</guid><pubDate>yesterday, 99:99</pubDate></item></channel></rss>",
    "bad links": b"<rss><channel><item><guid>1</guid><link>http://[::1</link></item><item><link>javascript:x()</link></item></channel></rss>",
    "empty guid": b"<rss><channel><item><guid></guid><title>x</title></item><item><guid> </guid><title>y</title></item></channel></rss>",
    "json text": b'"hello"',
    "json number list": b"[1,2]",
    "json without items": b'{"version":"https://jsonfeed.org/version/1"}',
    "json items of other kinds": b'{"items":[1,null,"x",[],{"id":{}},{"id":true,"title":5,"url":[],"authors":[5]}]}',
    "json duplicate keys": b'{"items":[],"items":[{"id":1}]}',
    "json deep": b'{"items":[' + b"[" * 1000,
    "json cut": b'{"items":[{"id":"1"',
    "json surrogate": b'{"items":[{"id":"\\ud800","title":"x"}]}',
}

BOMBS: dict[str, bytes] = {
    "billion laughs": b"<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]>"
    b"<rss><channel><item><title>&b;</title></item></channel></rss>",
    "external entity": b"<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><rss><channel><item><title>&x;</title></item></channel></rss>",
    "parameter entity": b"<!DOCTYPE r SYSTEM 'http://169.254.169.254/x.dtd'><rss><channel/></rss>",
    "behind a comment that names rss": b"<!-- <rss> --><!DOCTYPE r [<!ENTITY a 'x'>]><rss><channel><item><title>&a;</title></item></channel></rss>",
    "behind an instruction": b"<?x <rss?><!DOCTYPE r [<!ENTITY a 'x'>]><rss><channel/></rss>",
    "lower case": b"<!doctype rss><rss><channel/></rss>",
    "entity without doctype": b"<!ENTITY a 'x'><rss><channel/></rss>",
    "in utf-16": "<?xml version='1.0'?><!DOCTYPE r [<!ENTITY a 'x'>]><rss><channel/></rss>".encode("utf-16"),
    "after junk": b"junk <!DOCTYPE r [<!ENTITY a 'x'>]><rss><channel/></rss>",
}
