// Package preview draws the boards of Grafana in a browser from their JSON and a Prometheus, where there is
// no Grafana. It knows the panels that the boards of this repository have: stat, timeseries, heatmap, table and row.
package preview

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
)

//go:embed static
var static embed.FS

// Board names a board.
type Board struct {
	UID   string `json:"uid"`
	Title string `json:"title"`

	text []byte
}

// Boards reads those in the top folder of a file system.
func Boards(in fs.FS) ([]Board, error) {
	names, err := fs.Glob(in, "*.json")
	if err != nil {
		return nil, err
	}
	var boards []Board
	for _, name := range names {
		text, err := fs.ReadFile(in, name)
		if err != nil {
			return nil, err
		}
		board := Board{text: text}
		if err := json.Unmarshal(text, &board); err != nil {
			return nil, fmt.Errorf("%s is no board: %w", name, err)
		}
		if board.UID == "" {
			return nil, fmt.Errorf("%s is no board: it has no uid", name)
		}
		boards = append(boards, board)
	}
	if len(boards) == 0 {
		return nil, fmt.Errorf("no boards: %w", fs.ErrNotExist)
	}
	return boards, nil
}

// Handler serves the boards at /d/<uid>, and asks a Prometheus for their data.
func Handler(boards []Board, prometheus *url.URL) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler(path.Join("/d", boards[0].UID), http.StatusFound))
	mux.HandleFunc("GET /d/{uid}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, static, "static/board.html")
	})
	mux.HandleFunc("GET /boards", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(boards)
	})
	for _, board := range boards {
		mux.HandleFunc("GET /boards/"+url.PathEscape(board.UID)+".json", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(board.text)
		})
	}
	mux.Handle("GET /static/", http.FileServerFS(static))
	mux.Handle("GET /api/v1/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(prometheus) }})
	return mux
}
