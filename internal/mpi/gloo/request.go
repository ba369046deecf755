package gloo

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxHead bounds the bytes before a request's body.
const maxHead = 4 << 10

// request is a request of Horovod's client.
type request struct {
	method     string
	scope, key string
	length     int // bytes of the body
}

var errHead = errors.New("a request that no client sends")

// readHead reads a request's head, and returns it with the part of the body that came with it. buf
// must hold maxHead bytes.
func readHead(conn io.Reader, buf []byte) (r request, rest []byte, err error) {
	n := 0
	for {
		got, err := conn.Read(buf[n:])
		if n += got; err != nil {
			return r, nil, err
		}
		if end := bytes.Index(buf[:n], []byte("\r\n\r\n")); end >= 0 {
			r, err = parseHead(string(buf[:end]))
			return r, buf[end+4 : n], err
		}
		if n == len(buf) {
			return r, nil, errHead
		}
	}
}

// parseHead parses the request line and the length. The path is /SCOPE/KEY.
func parseHead(head string) (r request, err error) {
	line, fields, _ := strings.Cut(head, "\r\n")
	words := strings.Split(line, " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return r, errHead
	}
	r.method = words[0]
	path, rooted := strings.CutPrefix(words[1], "/")
	scope, key, found := strings.Cut(path, "/")
	if !rooted || !found || scope == "" || key == "" || strings.Contains(key, "/") {
		return r, errHead
	}
	r.scope = scope
	r.key = key
	for field := range strings.SplitSeq(fields, "\r\n") {
		name, value, _ := strings.Cut(field, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			if r.length, err = strconv.Atoi(value); err != nil || r.length < 0 {
				return r, errHead
			}
		case "host":
			if !onLoopback(value) {
				return r, errHead
			}
		case "origin", "referer", "sec-fetch-site":
			return r, errHead
		}
	}
	return r, nil
}

// onLoopback reports whether a Host header has an address of loopback, as Horovod's clients say. A
// page of the web may have given its own name that address. Its requests come from the user's
// browser, so the kernel says that they are the user's.
func onLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// answer writes a response. The client needs this very spelling of Content-Length, takes 404 for an
// absent key, and fails after three tries in 1.5 s for any code but 200 and 404.
type answer struct {
	status  string
	value   []byte
	records int // number of packed records in value, sent unpacked; 0: value is sent unchanged
}

func (a answer) append(dst []byte) []byte {
	length := len(a.value)
	if a.records > 0 {
		length = a.records * recordSize
	}
	dst = append(append(dst, "HTTP/1.0 "...), a.status...)
	dst = strconv.AppendInt(append(dst, "\r\nContent-Length: "...), int64(length), 10)
	dst = append(dst, "\r\n\r\n"...)
	if a.records > 0 {
		return unpack(slices.Grow(dst, length), a.value)
	}
	return append(dst, a.value...)
}

func ok() answer                { return answer{status: "200 OK"} }
func notFound() answer          { return answer{status: "404 Not Found"} }
func badRequest() answer        { return answer{status: "400 Bad Request"} }
func failed() answer            { return answer{status: "500 Internal Server Error"} }
func refused() answer           { return answer{status: "409 Conflict"} }
func addressOf(rank int) string { return strconv.Itoa(rank) }
