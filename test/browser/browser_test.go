//go:build browser

package browser

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var images = flag.String("images", "", "leave screenshots in this directory")

// chromium is one process for all tests.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		println("no chromium on this machine; Debian: apt-get install chromium")
		os.Exit(1)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", false), chromedp.WSURLReadTimeout(60*time.Second))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	chromium, end = chromedp.NewContext(allocator)
	err := chromedp.Do(chromium)
	code := 1
	if err != nil {
		println("chromium does not start:", err.Error())
	} else {
		code = m.Run()
	}
	end()
	stop()
	os.Exit(code)
}

// command wraps a command of the DevTools protocol as a step.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// tab is one page in the browser, with its console messages and network requests.
type tab struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	said []string
}

// screen is the size and color scheme of a page.
type screen struct {
	width, height int64
	scheme        string // light or dark
}

// open shows a page in a new tab. At the end of the test the console must have no messages.
func open(t *testing.T, url string, s screen) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(chromium)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	b.do()
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	b.do(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}),
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: s.width < 500,
		}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}},
		}),
		chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("body")))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.said {
			t.Error(text)
		}
	})
	return b
}

func (b *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		text = "console: " + string(e.Type)
		for _, a := range e.Args {
			text += " " + string(a.Value)
		}
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Text
	case *log.EventEntryAdded:
		text = "log: " + e.Entry.Text
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") {
			text = "asked the network: " + u
		}
	case *page.EventJavascriptDialogOpening:
		text = "dialog: " + e.Message
	}
	if text != "" {
		b.mu.Lock()
		b.said = append(b.said, text)
		b.mu.Unlock()
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// ask evaluates an expression on the page.
func ask[T any](b *tab, expression string) T { return get(b, chromedp.Evaluate[T](expression)) }

// get runs a step that has a value.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// press sends keys one after the other.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		if len(k) > 1 || k < " " {
			b.do(chromedp.KeyEvent(k))
			continue
		}
		// As a keyboard does: a page that handles the key gets no text.
		for _, e := range []input.DispatchKeyEventParams{
			{Type: input.DispatchKeyEventTypeRawKeyDown, Key: k}, {Type: input.DispatchKeyEventTypeChar, Key: k, Text: k}, {Type: input.DispatchKeyEventTypeKeyUp, Key: k},
		} {
			b.do(command(input.DispatchKeyEvent, e))
		}
	}
}

// picture saves a screenshot of the visible part, if -images is set.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *images == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*images, name), get(b, chromedp.CaptureScreenshot()), 0o644); err != nil {
		b.t.Fatal(err)
	}
}
