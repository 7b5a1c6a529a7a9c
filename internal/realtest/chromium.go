package realtest

import (
	"errors"
	"fmt"
	"testing"
)

// chromiums are the names and places of browsers that speak Chromium's protocol. scripts/setup.sh
// knows them too.
var chromiums = []string{
	"chromium", "chromium-browser", "google-chrome",
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

// Chromium returns the path of a Chromium: that in ONCEGUARD_CHROMIUM, else one that is
// installed. Without one it skips the test, or fails it where ONCEGUARD_REQUIRE_SERVERS is 1.
func Chromium(tb testing.TB) string {
	tb.Helper()
	path, err := findChromium()
	if err != nil {
		giveUp(tb, err)
	}
	return path
}

func findChromium() (path string, err error) {
	for _, name := range chromiums {
		path, err = find("ONCEGUARD_CHROMIUM", name)
		if err == nil || !errors.Is(err, errMissing) {
			return path, err
		}
	}
	return "", fmt.Errorf("%s: %w on the PATH; install it (apt-get install chromium, brew install --cask chromium) "+
		"or set ONCEGUARD_CHROMIUM to its path", chromiums[0], errMissing)
}
