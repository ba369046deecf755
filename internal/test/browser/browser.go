// Package browser opens pages in Chromium for tests.
package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Widths of the windows in which Shows looks at a page, in pixels.
const (
	wide   = 1400
	narrow = 400
)

// loading bounds the time in which a page loads, also on a busy machine.
const loading = time.Minute

// Tab is a page in a browser, which ends with the test. A test has one at a time.
type Tab struct {
	t       testing.TB
	to      *os.File
	from    *bufio.Reader
	id      int
	session string
	faults  []string // errors of scripts, and addresses that the browser refused or could not load
}

// message is one of the Chrome DevTools Protocol.
type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Open opens an address. It skips the test without Chromium, or without time.
func Open(t testing.TB, url string) *Tab {
	t.Helper()
	must.HaveTime(t)
	lab.Need(t, "chromium")
	theirs, to := must.GetTwo(os.Pipe())(t)
	from, answers := must.GetTwo(os.Pipe())(t)
	browser := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe")
	browser.ExtraFiles = []*os.File{theirs, answers}
	must.OK(t, browser.Start())
	must.OK(t, theirs.Close())
	must.OK(t, answers.Close())
	must.OK(t, from.SetDeadline(time.Now().Add(5*loading)))
	tab := &Tab{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		tab.session = ""
		tab.ask("Browser.close", nil, nil)
		to.Close()
		from.Close()
		_ = browser.Wait()
	})
	var target struct{ TargetID, SessionID string }
	tab.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	tab.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	tab.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		tab.ask(domain+".enable", nil, nil)
	}
	tab.resize(wide)
	tab.ask("Page.navigate", map[string]any{"url": url}, nil)
	tab.Until(`document.readyState == 'complete' && location.href != 'about:blank'`)
	return tab
}

// OpenText opens a page that a test has made.
func OpenText(t testing.TB, page string) *Tab {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	must.OK(t, os.WriteFile(name, []byte(page), 0o600))
	return Open(t, "file://"+name)
}

// ask sends a command and decodes its result.
func (tab *Tab) ask(method string, params map[string]any, result any) {
	tab.t.Helper()
	tab.id++
	command := map[string]any{"id": tab.id, "method": method}
	if params != nil {
		command["params"] = params
	}
	if tab.session != "" {
		command["sessionId"] = tab.session
	}
	text := must.Get(json.Marshal(command))(tab.t)
	must.Get(tab.to.Write(append(text, 0)))(tab.t)
	for {
		text := must.Get(tab.from.ReadBytes(0))(tab.t)
		var m message
		must.OK(tab.t, json.Unmarshal(text[:len(text)-1], &m))
		switch m.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded":
			tab.faults = append(tab.faults, string(m.Params))
		}
		if m.ID == tab.id && m.Method == "" {
			must.That(tab.t, m.Error == nil, "%s: %s", method, m.Error)
			if result != nil {
				must.OK(tab.t, json.Unmarshal(m.Result, result))
			}
			return
		}
	}
}

// Eval returns the value of an expression, as JSON.
func (tab *Tab) Eval(expression string) string {
	tab.t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	tab.ask("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true},
		&answer)
	must.That(tab.t, answer.ExceptionDetails == nil, "%s: %s", expression, answer.ExceptionDetails)
	return string(answer.Result.Value)
}

// Until waits until an expression is true.
func (tab *Tab) Until(expression string) {
	tab.t.Helper()
	for end := time.Now().Add(loading); tab.Eval("!!("+expression+")") != "true"; time.Sleep(50 * time.Millisecond) {
		must.That(tab.t, time.Now().Before(end), "%s stays false: %v", expression, tab.faults)
	}
}

// Press presses a key.
func (tab *Tab) Press(key string) {
	tab.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		tab.ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key}, nil)
	}
}

// Point moves the pointer to the middle of an element.
func (tab *Tab) Point(selector string) {
	tab.t.Helper()
	var at struct{ X, Y float64 }
	text := tab.Eval(fmt.Sprintf(`(() => {
		const e = document.querySelector(%q); e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect()
		return {X: b.left + b.width / 2, Y: b.top + b.height / 2} })()`, selector))
	must.OK(tab.t, json.Unmarshal([]byte(text), &at))
	tab.ask("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at.X, "y": at.Y}, nil)
}

func (tab *Tab) resize(width int) {
	tab.t.Helper()
	tab.ask("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Shows looks at the page in a wide and in a narrow window, light and dark: nothing may be wider
// than the window. With SCREENSHOTS=DIR it leaves pictures there.
func (tab *Tab) Shows(name string) {
	tab.t.Helper()
	for _, width := range []int{wide, narrow} {
		for _, theme := range []string{"light", "dark"} {
			tab.resize(width)
			tab.ask("Emulation.setEmulatedMedia", map[string]any{
				"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}}, nil)
			tab.Eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`)
			over := tab.Eval(`document.documentElement.scrollWidth - innerWidth`)
			check.That(tab.t, strings.HasPrefix(over, "-") || over == "0", "%s is %s pixels wider than %d", name, over,
				width)
			if dir := os.Getenv("SCREENSHOTS"); dir != "" {
				tab.picture(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, theme)))
			}
		}
	}
	tab.Sound()
}

// Sound fails the test if a script has thrown, or the browser complained.
func (tab *Tab) Sound() {
	tab.t.Helper()
	check.That(tab.t, len(tab.faults) == 0, "the browser says %s", strings.Join(tab.faults, "\n"))
}

func (tab *Tab) picture(file string) {
	tab.t.Helper()
	var shot struct{ Data string }
	tab.ask("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	must.OK(tab.t, os.WriteFile(file, must.Get(base64.StdEncoding.DecodeString(shot.Data))(tab.t), 0o644))
}
