"""Short texts of our own in many languages and notations, to count tokens on."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "English": "The ferry leaves at seven, so we packed the night before. My sister forgot her "
    "passport, drove back for it, and still reached the harbour with a minute to spare.",
    "English chat": "haha no way!! ok see u at 6:30pm then, bring the charger pls :) btw it's "
    "gonna rain",
    "English science": "Phosphorylation of the receptor's cytoplasmic domain precedes "
    "endocytosis; knockdown of clathrin attenuated signalling by 43.7% (p < 0.001, n = 12).",
    "German": "Die Straßenbahn fährt sonntags nur alle zwanzig Minuten, weshalb wir lieber zu Fuß "
    "gegangen sind. Unterwegs erzählte er von seiner Wohnungsbaugenossenschaft.",
    "French": "Hier soir, l'électricien n'est pas venu ; nous avons dîné à la lueur des bougies, "
    "et c'était plutôt agréable malgré le froid.",
    "Spanish": "Mañana por la mañana pasaré a recogerte; no olvides las llaves ni el paraguas, "
    "porque según el pronóstico lloverá todo el día.",
    "Portuguese": "A reunião foi adiada outra vez, então aproveitei para consertar a máquina de "
    "café que ninguém mais queria tocar.",
    "Italian": "Mio nonno coltivava pomodori sul balcone e giurava che il segreto fosse parlarci "
    "ogni sera, anche d'inverno.",
    "Polish": "Wczoraj wieczorem zepsuł się kaloryfer, więc całą noc spaliśmy pod trzema kocami i "
    "słuchaliśmy, jak wieje wiatr.",
    "Czech": "Příští týden jedeme na hory, ale ještě nevíme, jestli tam bude dost sněhu na běžky.",
    "Turkish": "Akşamüstü komşularımızla birlikte çay içtik ve çocukların okuldaki başarılarından "
    "uzun uzun konuştuk.",
    "Finnish": "Kirjastonhoitaja lainasi minulle kartan, jonka avulla löysimme vanhan myllyn "
    "metsän reunalta.",
    "Hungarian": "A szomszédunk tegnap óta keresi a macskáját, pedig az egész nap a tetőn "
    "napozott.",
    "Vietnamese": "Sáng nay trời mưa rất to nên chúng tôi ở nhà nấu phở và kể chuyện ngày xưa "
    "cho bọn trẻ nghe.",
    "Indonesian": "Sebelum berangkat ke kantor, dia selalu menyiram tanaman dan memberi makan "
    "kucing tetangga.",
    "Russian": "Вчера мы долго искали старую мельницу за рекой, но нашли только тропинку, "
    "которая вела обратно в деревню.",
    "Ukrainian": "Щоранку бабуся вмикала радіо, заварювала чай і записувала погоду в маленький "
    "зошит.",
    "Bulgarian": "Влакът закъсня с два часа, затова прочетохме целия вестник и изядохме всички "
    "сандвичи.",
    "Greek": "Το καλοκαίρι μέναμε σε ένα μικρό σπίτι δίπλα στη θάλασσα και κοιμόμασταν με τα "
    "παράθυρα ανοιχτά.",
    "Hebrew": "אתמול בערב הלכנו לשוק וקנינו תפוזים, גבינה ולחם טרי לארוחת הבוקר.",
    "Arabic": "وصل القطار متأخراً ساعة كاملة، فجلسنا في المقهى نشرب الشاي ونتحدث عن السفر. هل "
    "ستزورنا في الصيف؟",
    "Persian": "دیروز عصر در باغ قدم زدیم و پدربزرگ برایمان از روزهای مدرسه‌اش گفت.",
    "Hindi": "कल शाम हम नदी के किनारे टहलने गए और वहाँ बच्चों ने पतंगें उड़ाईं। फिर सबने साथ में चाय पी।",
    "Bengali": "গতকাল বিকেলে আমরা নদীর ধারে হাঁটতে গিয়েছিলাম এবং সূর্যাস্ত দেখেছিলাম।",
    "Tamil": "நேற்று மாலை நாங்கள் கடற்கரையில் நடந்து சென்றோம், குழந்தைகள் மணலில் விளையாடினார்கள்.",
    "Thai": "เมื่อวานเราไปเดินเล่นริมแม่น้ำและซื้อผลไม้กลับบ้านหลายอย่าง",
    "Georgian": "გუშინ საღამოს ბაღში ვისეირნეთ და ძველი სიმღერები გავიხსენეთ.",
    "Chinese": "昨天下午我们去河边散步，孩子们放风筝，老人们在树下下棋。晚上下起了小雨，大家就回家喝茶聊天。",
    "Traditional Chinese": "昨天傍晚我們到河邊散步，買了幾樣水果，然後搭電車回家。",
    "Japanese": "昨日の夕方、川沿いを散歩していたら、急に雨が降り出したので、近くの喫茶店で雨宿りをしました。",
    "Korean": "어제 저녁에 강가를 산책하다가 갑자기 비가 와서 근처 찻집에서 잠시 쉬었습니다.",
    "emoji": "Great trip! 🏖️🌊 12/10 would go again 😂😂👍🏽 — thanks 👩‍👩‍👧 & 🇫🇷 friends 🎉",
    "Python": "def merge(left: list[int], right: list[int]) -> list[int]:\n"
    "    out = []\n    while left and right:\n"
    "        out.append(left.pop(0) if left[0] <= right[0] else right.pop(0))\n"
    "    return out + left + right  # one of them is empty\n",
    "JavaScript": "const byId = new Map(rows.map((r) => [r.id, r]));\n"
    "export async function load(url) {\n\tconst res = await fetch(`${url}?t=${Date.now()}`);\n"
    "\tif (!res.ok) throw new Error(res.statusText);\n\treturn res.json();\n}\n",
    "C": "static int cmp(const void *a, const void *b) {\n"
    "\treturn *(const int *)a - *(const int *)b;\n}\n"
    "#define MAX_LEN 4096\nuint32_t crc = 0xDEADBEEF;\n",
    "SQL": "SELECT u.id, COUNT(*) AS n FROM users u LEFT JOIN orders o ON o.user_id = u.id\n"
    "WHERE o.created_at >= '2024-01-01' GROUP BY u.id HAVING COUNT(*) > 3 ORDER BY n DESC;",
    "JSON": '{"id": 10293, "tags": ["a", "b"], "nested": {"price": 19.99, "ok": true, "x": null}}',
    "HTML": '<div class="card" id="x1"><a href="https://example.com/a?b=c&amp;d=1">Read more…</a>'
    "</div>",
    "Markdown": "# Title\n\n- **bold** item\n- `code` item\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    "```sh\nmake test\n```\n",
    "log": "2024-05-17T08:31:02.554Z ERROR [worker-3] db.pool: timeout after 30000ms "
    "(req=9f3c2a7e-11d0) at /srv/app/pool.py:218",
    "numbers": "3.14159 2,718,281 0x7fff 1e-9 192.168.0.1 +49 30 1234567 17:45 50% €1.299,00",
    "capitals": "NOTICE: ALL PASSENGERS MUST PRESENT A VALID TICKET BEFORE BOARDING THE TRAIN.",
    "identifiers": "getUserByEmailAddress HTTPServerError snake_case_variable_name kebab-case-id",
    "whitespace": "a\n\n\n    b\n\t\tc   d\r\n\r\n        e\n",
    "rules": "==================\n------------------\n******************\n..................\n",
}
