# SPDX-License-Identifier: Apache-2.0
"""What the code interpreter's image promises: every library draws, reads or writes one thing, every program runs once. Nothing is skipped: what
is missing fails. The sandbox has no network, as a model's has not.
"""
from case import Case
from waiting import slow

PYTHON = [
    Case("numpy", "import numpy as np\nnp.save('a.npy', np.arange(6).reshape(2, 3)); print(np.load('a.npy').sum())", stdout="15\n"),
    Case("pandas", "import pandas as pd\npd.DataFrame({'a': [1, 2]}).to_csv('a.csv', index=False); print(pd.read_csv('a.csv').a.sum())", stdout="3\n"),
    Case("scipy", "from scipy import optimize\nprint(round(optimize.brentq(lambda x: x * x - 2, 0, 2), 6))", stdout="1.414214\n"),
    Case("scikit-learn", "from sklearn.linear_model import LinearRegression\nprint(round(LinearRegression().fit([[0], [1]], [1, 3]).predict([[2]])[0]))",
         stdout="5\n"),
    Case("scikit-image", "from skimage import filters, data\nimport numpy as np\nprint(filters.sobel(np.eye(5)).shape)", stdout="(5, 5)\n"),
    Case("statsmodels", "import statsmodels.api as sm\nprint(sm.OLS([1, 2, 3], sm.add_constant([1., 2., 3.])).fit().params.round(6).tolist()[1])",
         stdout="1.0\n"),
    Case("sympy", "import sympy\nx = sympy.Symbol('x')\nprint(sympy.integrate(2 * x, x))", stdout="x**2\n"),
    Case("networkx", "import networkx as nx\nprint(nx.shortest_path(nx.path_graph(3), 0, 2))", stdout="[0, 1, 2]\n"),
    Case("xgboost", "import xgboost\nm = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit([[0], [1]], [0, 1]); print(m.predict([[1]]).shape)",
         stdout="(1,)\n"),
    Case("lightgbm", "import lightgbm, numpy as np\nx = np.arange(100).reshape(-1, 1)\n"
         "print(lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(x, x.ravel()).predict(x).shape)", stdout="(100,)\n"),
    Case("numba", "import numba\n@numba.njit\ndef add(a, b):\n    return a + b\nprint(add(1, 2), len(add.signatures))", stdout="3 1\n"),
    Case("h5py", "import h5py\nwith h5py.File('a.h5', 'w') as f: f['x'] = [1, 2]\nprint(h5py.File('a.h5')['x'][:].tolist())", stdout="[1, 2]\n"),
    Case("tables", "import pandas as pd\npd.DataFrame({'a': [1, 2]}).to_hdf('t.h5', key='t'); print(len(pd.read_hdf('t.h5', 't')))", stdout="2\n"),
    Case("pyarrow", "import pandas as pd\npd.DataFrame({'a': [1]}).to_parquet('a.parquet'); print(pd.read_parquet('a.parquet').a[0])", stdout="1\n"),
    Case("polars", "import polars\nprint(polars.DataFrame({'a': [1, 2]})['a'].sum())", stdout="3\n"),
    Case("duckdb", "import duckdb\nprint(duckdb.sql('select 40 + 2').fetchone())", stdout="(42,)\n"),
    Case("sqlalchemy", "import sqlalchemy as sa\nwith sa.create_engine('sqlite:///a.db').begin() as c: c.execute(sa.text('create table t (a)'))\n"
         "print(sa.inspect(sa.create_engine('sqlite:///a.db')).get_table_names())", stdout="['t']\n"),
    Case("openpyxl", "import pandas as pd\npd.DataFrame({'a': [1]}).to_excel('a.xlsx'); print(pd.read_excel('a.xlsx').a[0])", stdout="1\n"),
    Case("xlsxwriter", "import xlsxwriter, openpyxl\nb = xlsxwriter.Workbook('b.xlsx'); b.add_worksheet('s').write('A1', 'hi'); b.close()\n"
         "print(openpyxl.load_workbook('b.xlsx')['s']['A1'].value)", stdout="hi\n"),
    Case("xlrd refuses what is no old workbook", "import xlrd\ntry: xlrd.open_workbook('b.xlsx')\nexcept xlrd.XLRDError as e: print('xlsx' in str(e))",
         stdout="True\n"),
    Case("orjson", "import orjson\nprint(orjson.loads(orjson.dumps({'a': [1, 2]})))", stdout="{'a': [1, 2]}\n"),
    Case("tabulate", "import tabulate\nprint(tabulate.tabulate([[1]], ['a'], 'github').count('|'))", has=("6",)),
    Case("geopandas", "import geopandas, shapely\ng = geopandas.GeoDataFrame({'n': ['x']}, geometry=[shapely.Point(1, 2).buffer(1)], crs=4326)\n"
         "g.to_file('g.geojson'); r = geopandas.read_file('g.geojson'); print(len(r), r.to_crs(3857).crs.to_epsg())", stdout="1 3857\n"),
    Case("shapely", "import shapely\nprint(shapely.box(0, 0, 2, 2).intersection(shapely.box(1, 1, 3, 3)).area)", stdout="1.0\n"),

    Case("matplotlib", "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('p.png'); plt.close(); print(open('p.png', 'rb').read(4))",
         stdout="b'\\x89PNG'\n"),
    Case("seaborn", "import seaborn, matplotlib.pyplot as plt\nprint(seaborn.barplot(x=['a', 'b'], y=[1, 2]).patches[1].get_height()); plt.close('all')",
         has=("2.0",)),
    Case("mplfinance", "import mplfinance, pandas as pd, os\nd = pd.DataFrame({k: [1., 2., 3.] for k in ('Open', 'High', 'Low', 'Close')}, index=pd.date_range('2024', periods=3))\n"
         "mplfinance.plot(d, type='candle', savefig='m.png'); print(os.path.getsize('m.png') > 1000)", stdout="True\n"),
    Case("wordcloud", "import wordcloud\nprint(wordcloud.WordCloud(width=80, height=40).generate('one two two').to_array().shape)", stdout="(40, 80, 3)\n"),
    Case("plotly and kaleido", "import plotly.express as px\npx.bar(x=['a'], y=[1]).write_image('k.png'); print(open('k.png', 'rb').read(4))",
         stdout="b'\\x89PNG'\n"),
    Case("bokeh", "from bokeh.plotting import figure\nfrom bokeh.embed import file_html\nf = figure(); f.line([1, 2], [1, 2]); print('<html' in file_html(f))",
         stdout="True\n"),
    Case("altair and vl-convert", "import altair as alt, pandas as pd, vl_convert\nc = alt.Chart(pd.DataFrame({'a': [1, 2]})).mark_bar().encode(x='a:O', y='a')\n"
         "open('v.png', 'wb').write(vl_convert.vegalite_to_png(c.to_json())); print(open('v.png', 'rb').read(4))", stdout="b'\\x89PNG'\n"),
    Case("folium", "import folium\nfolium.Map([52, 13]).save('map.html'); print('leaflet' in open('map.html').read())", stdout="True\n"),
    Case("graphviz", "import graphviz\ng = graphviz.Digraph(format='png'); g.edge('a', 'b'); print(g.pipe()[:4])", stdout="b'\\x89PNG'\n"),
    Case("Pillow", "from PIL import Image\nImage.new('RGB', (3, 2)).save('i.webp'); print(Image.open('i.webp').size)", stdout="(3, 2)\n"),
    Case("OpenCV", "import cv2, numpy as np\nprint(cv2.GaussianBlur(np.zeros((8, 8), np.uint8), (3, 3), 0).shape)", stdout="(8, 8)\n"),

    Case("librosa and soundfile", "import librosa, soundfile, numpy as np\nsoundfile.write('s.wav', np.sin(np.arange(22050) * 2 * np.pi * 440 / 22050), 22050)\n"
         "y, rate = librosa.load('s.wav'); print(rate, librosa.hz_to_note(float(librosa.feature.spectral_centroid(y=y, sr=rate)[0, 20])))", stdout="22050 A4\n"),
    Case("imageio-ffmpeg", "import imageio_ffmpeg\nprint(imageio_ffmpeg.get_ffmpeg_version() > '4')", stdout="True\n"),
    Case("spaCy", "import spacy\nn = spacy.blank('en'); n.add_pipe('sentencizer'); print([len(s) for s in n('It works. Well.').sents])", stdout="[3, 2]\n"),
    Case("nltk splits sentences and words", "import nltk\nprint(nltk.sent_tokenize('Dr. Who came. He left.'), nltk.word_tokenize(\"don't\"))",
         stdout="['Dr. Who came.', 'He left.'] ['do', \"n't\"]\n"),
    Case("nltk has stop words", "from nltk.corpus import stopwords\nprint('the' in stopwords.words('english'), 'und' in stopwords.words('german'))",
         stdout="True True\n"),
    Case("nltk has WordNet", "from nltk.corpus import wordnet as wn\nfrom nltk.stem import WordNetLemmatizer\n"
         "print(wn.synset('dog.n.01').lexname(), sorted(s.name() for s in wn.synset('dog.n.01').hypernyms())[0], WordNetLemmatizer().lemmatize('geese'))",
         stdout="noun.animal canine.n.02 goose\n"),
    Case("nltk has vader's lexicon", "from nltk.sentiment import SentimentIntensityAnalyzer\nprint(SentimentIntensityAnalyzer().polarity_scores('great')['compound'] > 0.5)",
         stdout="True\n"),
    Case("gensim", "from gensim.models import Word2Vec\nprint(Word2Vec([['a', 'b']] * 9, vector_size=4, min_count=1, workers=1).wv['a'].shape)", stdout="(4,)\n"),
    Case("tiktoken, old encoding", "import tiktoken\nprint(tiktoken.encoding_for_model('gpt-4').encode('hello world'))", stdout="[15339, 1917]\n"),
    Case("tiktoken, new encoding", "import tiktoken\nprint(tiktoken.encoding_for_model('gpt-4o').encode('hello world'))", stdout="[24912, 2375]\n"),

    Case("fpdf2", "from fpdf import FPDF\np = FPDF(); p.add_page(); p.set_font('helvetica', size=20); p.cell(text='Hello from a page'); p.output('f.pdf')\n"
         "print(open('f.pdf', 'rb').read(4))", stdout="b'%PDF'\n"),
    Case("reportlab", "from reportlab.pdfgen import canvas\nc = canvas.Canvas('r.pdf'); c.drawString(9, 9, 'hi'); c.save(); print(open('r.pdf', 'rb').read(4))",
         stdout="b'%PDF'\n"),
    Case("pypdf", "import pypdf\nprint(pypdf.PdfReader('f.pdf').pages[0].extract_text().strip())", stdout="Hello from a page\n"),
    Case("PyMuPDF", "import fitz\nprint(fitz.open('f.pdf')[0].get_text().strip(), fitz.open('f.pdf')[0].get_pixmap().width > 100)", stdout="Hello from a page True\n"),
    Case("pdfplumber", "import pdfplumber\nprint(pdfplumber.open('f.pdf').pages[0].extract_text())", stdout="Hello from a page\n"),
    Case("pdf2image", "import pdf2image\np = pdf2image.convert_from_path('f.pdf', dpi=150)[0]; p.save('f.png'); print(p.width > 1000)", stdout="True\n"),
    Case("pytesseract", "import pytesseract\nprint(pytesseract.image_to_string('f.png').strip())", stdout="Hello from a page\n"),
    Case("python-docx", "import docx\nd = docx.Document(); d.add_paragraph('hi'); d.save('a.docx'); print(docx.Document('a.docx').paragraphs[0].text)", stdout="hi\n"),
    Case("python-pptx", "import pptx\np = pptx.Presentation(); p.slides.add_slide(p.slide_layouts[0]); p.save('a.pptx'); print(len(pptx.Presentation('a.pptx').slides))",
         stdout="1\n"),
    Case("markdown", "import markdown\nprint(markdown.markdown('# hi'))", stdout="<h1>hi</h1>\n"),
    Case("html5lib", "import html5lib\nprint(html5lib.parse('<p>hi', namespaceHTMLElements=False).findtext('body/p'))", stdout="hi\n"),
    Case("beautifulsoup and lxml", "from bs4 import BeautifulSoup\nprint(BeautifulSoup('<p>hi', 'lxml').p.text, BeautifulSoup('<p>hi', 'html5lib').p.text)",
         stdout="hi hi\n"),

    Case("requests", "import requests\nprint(requests.Request('GET', 'http://a/b', params={'c': 1}).prepare().url)", stdout="http://a/b?c=1\n"),
    Case("httpx", "import httpx\nprint(httpx.URL('http://a/b').path)", stdout="/b\n"),
    Case("aiohttp serves and asks", "import aiohttp, aiohttp.web as web\nasync def hi(request): return web.Response(text='hi')\n"
         "app = web.Application(); app.router.add_get('/', hi); runner = web.AppRunner(app); await runner.setup(); await web.TCPSite(runner, '127.0.0.1', 8901).start()\n"
         "async with aiohttp.ClientSession() as s, s.get('http://127.0.0.1:8901/') as r: print(await r.text())\nawait runner.cleanup()", stdout="hi\n"),
    Case("flask", "import flask\napp = flask.Flask('a')\n@app.get('/')\ndef hi(): return 'hi'\nprint(app.test_client().get('/').text)", stdout="hi\n"),
    Case("fastapi", "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/x')\ndef hi(a: int): return a\nprint(list(app.openapi()['paths']))", stdout="['/x']\n"),
    Case("openai", "import openai\nprint(openai.OpenAI(api_key='k').base_url.host)", stdout="api.openai.com\n"),
    Case("anthropic", "import anthropic\nprint(anthropic.Anthropic(api_key='k').base_url.host)", stdout="api.anthropic.com\n"),

    Case("ipykernel and jupyter_client", "import jupyter_client.kernelspec as k\nprint('python3' in k.KernelSpecManager().find_kernel_specs())", stdout="True\n"),
    Case("ipywidgets", "import ipywidgets\nprint(ipywidgets.IntSlider(value=7).value)", stdout="7\n"),
    Case("nest_asyncio", "import nest_asyncio, asyncio\nnest_asyncio.apply()\nasync def f(): return 5\nprint(asyncio.run(f()))", stdout="5\n"),
    Case("pytest", "open('test_a.py', 'w').write('def test_a(): assert 1\\n')\nimport pytest\nprint(int(pytest.main(['-q', 'test_a.py'])))", has=("1 passed", "0\n")),
    Case("psutil", "import psutil, os\nprint(psutil.Process().pid == os.getpid())", stdout="True\n"),
    Case("faker", "import faker\nfaker.Faker.seed(1); print(len(faker.Faker().name()) > 3)", stdout="True\n"),
    Case("python-dotenv", "import dotenv\nopen('.env', 'w').write('A_B=7\\n'); print(dotenv.dotenv_values('.env')['A_B'])", stdout="7\n"),
    Case("PyYAML", "import yaml\nprint(yaml.safe_load('a: [1]'))", stdout="{'a': [1]}\n"),
    Case("tqdm", "import tqdm\nprint(sum(tqdm.tqdm([1, 2], disable=True)))", stdout="3\n"),
]

BASH = [
    Case("wget", "wget --version | head -c 8", stdout="GNU Wget"),
    Case("ffmpeg", "ffmpeg -v error -y -f lavfi -i testsrc=d=1:s=64x48:r=5 -c:v libx264 t.mp4 && ffmpeg -i t.mp4 -f null - 2>&1 | grep -o 'Duration: 00:00:01.00'",
         stdout="Duration: 00:00:01.00\n"),
    Case("pandoc", "printf '# hi\\n' | pandoc -f markdown -t html && printf '# hi\\n' | pandoc -o p.docx && pandoc p.docx -t plain", has=("<h1 id=\"hi\">hi</h1>", "\nhi\n")),
    Case("poppler-utils", "pdftotext f.pdf - | head -1; pdftoppm -r 150 -png -singlefile f.pdf page", stdout="Hello from a page\n"),
    Case("tesseract", "tesseract page.png - 2> /dev/null | head -1", stdout="Hello from a page\n"),
    Case("graphviz", "echo 'digraph { a -> b }' | dot -Tsvg | grep -c '</svg>'", stdout="1\n"),
    Case("imagemagick", "convert -size 9x5 xc:red r.png && identify -format '%wx%h' r.png", has=("9x5",)),
    Case("ripgrep", "mkdir -p rg && echo needle > rg/hay && rg -l needle rg", stdout="rg/hay\n"),
    Case("vim-tiny", "echo old > v.txt && vi -es -c '%s/old/new/' -c wq v.txt < /dev/null; cat v.txt", stdout="new\n"),
    Case("less", "echo text | less", stdout="text\n"),
    Case("man", "man ls | head -3", has=("LS(1)",)),
    Case("tree", "mkdir -p tr/ee && tree --noreport tr | wc -l", stdout="2\n"),
    Case("jq", "echo '{\"a\": [1, 2]}' | jq '.a | add'", stdout="3\n"),
    Case("sqlite3, zip, curl, file", "sqlite3 :memory: 'select 40 + 2' && zip -q a.zip v.txt && unzip -p a.zip && file -b --mime-type a.zip && curl --version | head -c 4",
         stdout="42\nnew\napplication/zip\ncurl"),
    Case("a virtual environment has pip, offline", "python3 -m venv .venv && .venv/bin/pip --version | cut -d' ' -f1 && .venv/bin/python -c 'import sys; print(sys.prefix)'",
         stdout="pip\n/workspace/.venv\n", options={"timeout_ms": int(slow(33_000))}),
    Case("git has an identity", "git init -q repo && cd repo && echo a > a && git add a && git commit -qm first && git log --format='%an %s'; cd ..", stdout="Sandbox first\n"),
    Case("root commits to the user's repository", "cd repo && sudo git commit -q --allow-empty -m second && git log --format=%s | wc -l; cd ..", stdout="2\n"),
    Case("/mnt/data is the working directory", "echo there > /mnt/data/m.txt && cat /workspace/m.txt", stdout="there\n"),
    Case("/content and the home directory can be written", "echo one > /content/c && echo two > /home/user/h && cat /content/c /home/user/h", stdout="one\ntwo\n"),
    Case("Go compiles and runs, offline", "mkdir -p g && printf 'package main\\nimport (\"fmt\"; \"strings\")\\nfunc main() { fmt.Println(strings.ToUpper(\"hello\")) }\\n' > g/hello.go && go run g/hello.go",
         stdout="HELLO\n", options={"timeout_ms": int(slow(33_000))}),
    Case("the C compiler", "echo 'int main(void) { return 7; }' > seven.c && gcc seven.c -o seven; ./seven; echo $?", stdout="7\n"),
    Case("a script requires the global packages", "echo \"console.log(require('lodash').sum([1, 2]), process.version.split('.')[0] >= 'v22')\" > l.js && node l.js", stdout="3 true\n"),
    Case("tsc", "echo 'const x: number = 41; console.log(x + 1)' > t.ts && tsc t.ts && node t.js", stdout="42\n", options={"timeout_ms": int(slow(33_000))}),
    Case("npm and npx", "npm --version | cut -d. -f1 && npx --version | cut -d. -f1", check=lambda execution: int(execution["stdout"].split()[0]) >= 10),
]

JAVASCRIPT = [
    Case("lodash", "require('lodash').chunk([1, 2, 3], 2).length", result="2"),
    Case("axios", "require('axios').getUri({ url: 'http://a/b', params: { c: 1 } })", result="'http://a/b?c=1'"),
    Case("date-fns", "require('date-fns').format(new Date(2024, 0, 31), 'yyyy-MM-dd')", result="'2024-01-31'"),
    Case("chart.js", "require('chart.js').Chart.version.split('.')[0]", result="'4'"),
    Case("typescript", "require('typescript').transpile('const x: number = 1').trim().split('\\n').pop()", result="'const x = 1;'"),
    Case("import finds them as well", "const { default: _ } = await import('lodash'); const { addDays } = await import('date-fns'); [_.sum([1, 2]), typeof addDays]",
         result="[ 3, 'function' ]"),
    Case("from any directory", "process.chdir('/tmp'); const there = require('lodash').last([1, 9]); process.chdir('/workspace'); there", result="9"),
    Case("Node is a current one", "Number(process.version.slice(1).split('.')[0]) >= 22", result="true"),
]

CASES = {"python": PYTHON, "bash": BASH, "javascript": JAVASCRIPT}
