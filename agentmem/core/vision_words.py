"""The words with which people point at an image, for `core/vision.py`.

All patterns are for text that is case-folded and has straight apostrophes.
Each is linear: no pattern repeats something that can match in two ways.
"""

from __future__ import annotations

import re

from agentmem.core.patterns import compile_late


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return compile_late("|".join(alternatives), re.VERBOSE)


CODE = compile_late(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)

# Things to look at. "image" also means what containers are made from; the drawn
# ones have everyday meanings besides ("figure it out", "a graph with five nodes").
_PHOTO = r"""(?:pictures?|pics?|photos?|photographs?|selfies?|memes?|x-?rays?|
    screen[ -]?(?:shots?|grabs?|caps?))"""
_IMAGE = r"(?:images?|imgs?)"
_NOUN = rf"(?:{_PHOTO}|{_IMAGE})"
_DRAWN = r"""(?:diagrams?|charts?|graphs?|plots?|figures?|drawings?|sketch(?:es)?|scans?|
    infographics?|mock-?ups?|wireframes?|receipts?|whiteboards?|floor\s?plans?|flow\s?charts?)"""
_SIGHT = rf"(?:{_NOUN}|{_DRAWN})"

_ORDER = r"""(?:(?:first|second|third|fourth|last|next|previous|earlier|other|two|three|four|few|
    left|right|top|bottom|middle|old|new|same|latest|original|entire|whole|attached|uploaded|
    given|provided|above|blurry|little|funny)\s+){0,3}"""
_SENT = r"(?:sent|send|shared|uploaded|attached|posted|gave|pasted|showed|provided)"
_MODIFIED = r"""(?!\s+(?:industry|studio|studios|shoot|shoots|credits?|contests?|booths?|ids?|
    finish|journalism|competitions?|book|books|day))"""

# Removed before anything else is read.
IDIOM = _pattern(
    r"""\b(?:big|bigger|full|fuller|whole|broader|larger|wider|clear|clearer|complete|overall|
        mental|motion|rosy|bleak|grim|accurate|better|best)\s+pictures?\b""",
    r"\bpicture\s+(?:this|that|it|yourself|a|perfect)\b",
    r"\b(?:get|got|getting)\s+the\s+picture\b | \bout\s+of\s+the\s+picture\b",
    r"\b(?:com(?:e|es|ing)|came|enter(?:s|ed|ing)?)\s+into\s+the\s+picture\b",
    r"\bpaint(?:s|ed|ing)?\s+(?:a|the|this)\s+(?:\w+\s+)?pictures?\b",
    r"\b(?:self|mirror|public|body|brand|corporate|spitting)[\s-]+images?\b",
    r"\bimage\s+(?:problem|consultant) | \bimage\s+of\s+(?:the\s+)?(?:god|company|brand)\b",
    r"""\b(?:docker|container|base|parent|disk|boot|bootable|vm|iso|machine|system|kernel|os|oci|
        linux|ubuntu|debian|alpine|node|python|postgres|nginx|redis|golang|java|distroless|
        firmware|recovery|golden|ami|runtime|builder|prebuilt|pre-built|official|multi-arch|
        inverse|favicon|hero|background|cover|profile|thumbnail|header|placeholder|stock)
        [\s-]+(?:images?|pictures?|pics?|photos?)\b""",
    r"""\b(?:images?|photos?|pictures?|screenshots?)\s+(?:names?|tags?|registry|registries|
        repository|repo|pull|builds?|processing|classification|classifiers?|recognition|
        segmentation|generation|generators?|compression|formats?|library|libraries|components?|
        urls?|uploads?|uploaders?|fields?|columns?|datasets?|models?|editors?|viewers?|galler\w+|
        carousels?|sensors?|editing|search|hosting|storage|books?|frames?|albums?|apps?|tests?|
        testing|folders?|director\w+|paths?|plugins?|elements?|sliders?|resolution|layers?|
        stabili[sz]ation|cach\w+|digests?|manifests?|polic\w+|tools?|buttons?|icons?)\b""",
)

# Words of people who work on images by program, deploy them or store them.
TECHNICAL = _pattern(
    r"""\b(?:docker\w*|kubernetes|kubectl|k8s|podman|containers?|helm|registry|ecr|ghcr|pods?|
        deployments?|css|html|img\s+tags?|src|href|react|vue|angular|svelte|tailwind|next\.?js|
        node\.?js|javascript|typescript|python|java|kotlin|swift|swiftui|rust|golang|php|laravel|
        django|flask|rails|pillow|pil|opencv|cv2|numpy|pytorch|tensorflow|torchvision|imagemagick|
        ffmpeg|apis?|endpoints?|backend|frontend|s3|buckets?|cdn|sql|sqlite|postgres\w*|mysql|
        mongodb|databases?|blobs?|base64|multipart|lazy[ -]?load\w*|thumbnails?|div|flexbox|regex|
        functions?|scripts?|librar(?:y|ies)|npm|pip|latex|markdown|wordpress|photoshop|gimp|
        lightroom|iphone|android|macbook|macos|windows\s+1[01]|chromebook|instagram|pinterest|
        training\s+set|datasets?|neural|cnns?|diffusion|midjourney|dall-?e|algorithms?|servers?)\b""",
    r"""\bhow\s+(?:do|can|could|would|should)\s+(?:i|you|we|one|people)\b
        (?!\s+(?:see|tell|describe|read|interpret))""",
    r"\bhow\s+to\b | \bc\+\+",
)

CREATING = _pattern(
    rf"""\b(?:draw|generate|create|make|design|paint|render|produce|sketch|illustrate|plot|imagine)
        \b[^.?!\n]{{0,40}}\b(?:an?|some|new|another|one|more)\s[^.?!\n]{{0,40}}{_SIGHT}""",
)

# A question or request that only makes sense with something to look at.
LOOKING = _pattern(
    r"""\bwhat(?:'s|\s+is|\s+does|\s+do|\s+did)?\s+(?:this|that|it|these|those)\s+
        (?:shows?|depicts?|pictures?)\b(?!\s+(?:about|that|how|when|if|on|with|up|as|me|in)\b)""",
    r"""\bwhat\s+(?:do|can)\s+you\s+(?:\w+\s+)?see
        (?:\s+(?:here|there|in\s+(?:this|it|the\s+(?:image|picture|photo|background))))?
        \s*(?:[?.!]|$)""",
    r"\bwhat\s+(?:am|are)\s+(?:i|we|you)\s+looking\s+at\b",
    r"""\bwhat(?:'s|\s+is|\s+are)\s+(?:being\s+)?(?:shown|pictured|depicted|visible)
        (?:\s+(?:here|above|below))?\s*(?:[?.!]|$)""",
    rf"\b(?:is|what's|what\s+is)\s+(?:this|that|it)\s+an?\s+(?:\w+\s+)?{_NOUN}\b",
    rf"""\b(?:can|could|do)\s+(?:you|u)\s+(?:see|view|open|read|look\s+at|describe)\s+
        (?:this|that|the|my|these)\s+(?:\w+\s+)?{_NOUN}\b""",
    r"""^\s*(?:please\s+|pls\s+|(?:can|could)\s+you\s+)?(?:ocr|caption|transcribe)\s+
        (?:this|these|that)\b
        (?!\s+(?:audio|video|recording|podcast|call|meeting|interview|voice|song|speech))""",
    rf"""\b(?:describe|identify|recogni[sz]e|analy[sz]e|caption|zoom\s+in(?:to)?(?:\s+on)?|
        look\s+at|read|based\s+on|given|according\s+to|from)\s+
        (?:this|these|the|that|both|my)\s+{_ORDER}{_NOUN}\b(?!\s+(?:of|as)\b){_MODIFIED}""",
    rf"\bdescription\s+(?:of|for)\s+(?:this|these|the|that|my)\s+{_ORDER}{_NOUN}\b",
    r"""\b(?:read|transcribe|translate)\s+(?:this|the|my|that)\s+
        (?:handwriting|handwritten\s+\w+|whiteboard|receipt|sign|label)
        \s*(?:[?.!]|$|for\s+me|to\s+me)""",
    rf"""\b(?:convert|turn|recreate|reproduce|replicate|transform|translate|rebuild)\s+
        (?:this|the|that|my|these)\s+{_ORDER}(?:{_SIGHT}|design)\s+(?:in|in\s?to|to|as|using|with)\s+
        (?:an?\s+)?(?:\w+\s+)?(?:html|code|css|react|latex|text|markdown|csv|json|tables?|excel|
        mermaid|components?|spreadsheet|page)\b""",
)

# "here's a photo of my plant", "I've attached a screenshot", "see attached".
SHARED = _pattern(
    rf"""\bhere(?:'s|\s+is|\s+are|\s+comes?)\s+(?:an?|the|my|some|two|three|another|our)\s+
        (?:\w+\s+){{0,2}}{_SIGHT}\b(?!\s+of\s+how)""",
    rf"""\b(?:i|we)(?:'ve|'m|\s+have|\s+am)?\s+(?:just\s+)?
        (?:attach(?:ed|ing)?|upload(?:ed|ing)?|includ(?:ed|ing)|shar(?:ed|ing)|past(?:ed|ing)|
        sending)\s+(?:you\s+)?
        (?:an?|the|my|some|two|three|several|another|this|these|both)\s+
        (?:\w+\s+){{0,2}}{_SIGHT}\b(?!\s+(?:to|on|in)\b)""",
    rf"""\b(?:i|we)(?:'ve|\s+have)?\s+(?:just\s+)?sent\s+(?:you|u)\s+
        (?:an?|the|my|some|two|these)\s+(?:\w+\s+){{0,2}}{_NOUN}\b""",
    rf"\b(?:see|check|look\s+at)\s+(?:out\s+)?(?:the\s+)?attach(?:ed|ment)\s*(?:{_SIGHT}|[?.!:;,]|$)",
    rf"""\b(?:take\s+a\s+look|have\s+a\s+look|look|check\s+out)\s+(?:at\s+)?
        (?:this|these|the|my)\s+(?:\w+\s+)?{_PHOTO}\b""",
    rf"\b{_NOUN}\s+(?:is\s+|are\s+)?attached\b",
)

# "this picture", "the attached diagram", "the screenshot I sent", "photo 2".
_POINTED = (
    r"\b(?:this|that|these|those)\s+{order}{noun}\b{modified}",
    r"\b(?:the|my|your|both|all|each|either)\s+(?:\w+\s+)?{noun}\s+(?:above|below|here|attached)\b",
    r"""\b(?:the|my|both|all)\s+(?:\w+\s+)?{noun}\s+(?:that\s+)?(?:i|we|you)
        (?:'ve|\s+have)?\s+(?:just\s+)?{sent}\b""",
    r"\b{noun}\s+(?:\#\s?)?\d\b",
)


def _pointed(noun: str) -> re.Pattern[str]:
    names = {"noun": noun, "order": _ORDER, "modified": _MODIFIED, "sent": _SENT}
    filled = (re.sub(r"\{([a-z]+)\}", lambda m: names[m[1]], text) for text in _POINTED)
    return _pattern(*filled)


POINTED_PHOTO = _pattern(
    _pointed(_PHOTO).pattern,
    rf"""\b(?:attached|uploaded|enclosed|pasted|accompanying|following)\s+
        (?!(?:the|an?|my|our|your|his|her|their|some|to)\b)(?:\w+\s+)?{_SIGHT}\b""",
    rf"""\b(?:shown|pictured|seen|visible|written)\s+(?:in|on)\s+(?:the|this|that|these|my)\s+
        {_ORDER}{_SIGHT}\b""",
    rf"\b(?:this|these|that|those)\s+{_DRAWN}\s+(?:shows?|depicts?|means?|says?|represents?)\b",
    rf"\b(?:does|do|is|are)\s+(?:this|these|that|those)\s+{_DRAWN}\b",
)
POINTED_IMAGE = _pointed(_IMAGE)

# "in the photo", "the second image", "what does the chart show": believed when asked about.
DEFINITE = _pattern(
    rf"""\b(?:in|on|from|of|about|at|behind|with)\s+(?:the|my|his|her|your|our|both|each|either)\s+
        {_ORDER}{_NOUN}\b{_MODIFIED}""",
    rf"\b(?:in|on|from|of|about)\s+(?:the|my|that|this|those|these)\s+{_ORDER}{_DRAWN}\s*(?:[?.!,]|$)",
    rf"\b(?:the|my)\s+(?:first|second|third|last|previous|left|right|top|bottom)\s+{_NOUN}\b",
    rf"""\b(?:the|my)\s+{_SIGHT}\s+(?:shows?|showing|says?|means?|looks?|depicts?|contains?|
        above|below)\b""",
    rf"\bwhich\s+(?:of\s+(?:the|these|those)\s+)?(?:\w+\s+)?{_NOUN}\b",
)

ASKING = _pattern(
    r"""\b(?:what|what's|whats|who|who's|whose|where|which|when|why|is|are|was|were|does|do|did|
        how\s+(?:many|much|old|big|tall|far|long|does|is|are)|can|could|describe|identify|
        recogni[sz]e|transcribe|read|translate|caption|explain|compare|look|see|check|count|find|
        spot|tell|analy[sz]e|summari[sz]e|extract|interpret|guess|rate|zoom|solve|list|convert|
        remove|add|write)\b""",
)

FILE_NAME = compile_late(r"[\w-]\.(?:png|jpe?g|gif|webp|heic|bmp|tiff?)\b")

# After an image, words that stand for it.
FOLLOW_UP = _pattern(
    r"""\b(?:it|its|this|that|these|those|there|here|he|she|him|her|they|them|
        the\s+(?:left|right|top|bottom|other|first|second|third|last)|colou?rs?|background|
        foreground|caption|shown|visible|see|text\s+(?:in|on)|corner|left|right)\b""",
    r"\b(?:das|dies\w*|darauf|darin|links|rechts|hintergrund|farbe)\b",
    r"\b(?:ça|cela|celui|celle|gauche|droite|couleur|fond)\b",
    r"\b(?:eso|esto|esta|ese|esa|izquierda|derecha|color|fondo)\b",
    r"\b(?:questo|questa|quello|sinistra|destra|colore|sfondo)\b",
    r"[这這那它左右]|これ|それ|あれ|この|その|이것|그것|이거|\bэт(?:о|от|а|и)\b|\bцвет",
)

OTHER_LANGUAGES = _pattern(
    # German
    r"""\b(?:(?:auf|in|aus|zu|von|an)\s+(?:dem|den|diesem|diesen|meinem|beiden)|[ia]m)\s+(?:\w+\s+)?
        (?:bild|bildern|foto|fotos|screenshots?|bildschirmfotos?|schaubild)\b""",
    r"""\b(?:dies(?:es|e|er)|angehängte[sn]?|beigefügte[sn]?)\s+(?:\w+\s+)?
        (?:bild|bilder|foto|fotos|screenshots?|bildschirmfotos?|aufnahme)\b""",
    r"\bwas\s+(?:siehst|sehen)\s+(?:du|sie|wir)(?:\s+(?:hier|da|dort|darauf))?\s*(?:[?.!]|$)",
    r"\bwas\s+ist\s+(?:hier|da|darauf)\s+zu\s+sehen\b | \bwas\s+zeigt\s+(?:das|dieses|dies)\b",
    r"\bbeschreib(?:e|en\s+sie)?\s+(?:mir\s+)?(?:das|dieses)\s+(?:bild|foto)\b",
    # French
    r"""\b(?:sur|dans)\s+(?:cette|ces|la|l'|ma|mes|les)\s*(?:\w+\s+)?
        (?:images?|photos?|captures?(?:\s+d'écran)?)\b(?!\s+(?:docker|de\s+marque))""",
    r"\b(?:cette|ces)\s+(?:\w+\s+)?(?:images?|photos?|captures?(?:\s+d'écran)?)\b(?!\s+docker)",
    r"\b(?:image|photo|capture)(?:\s+d'écran)?\s+(?:ci-jointe|ci-dessus|jointe)\b",
    r"\bque\s+(?:vois-tu|voyez-vous|montre)\b",
    r"\bqu'est-ce\s+qu(?:e|')\s*(?:on|tu|vous)?\s*(?:vois|voit|voyez)\b",
    r"\bdécri(?:s|vez)(?:-moi)?\s+(?:l'|la\s+|cette\s+)(?:image|photo)\b",
    # Spanish
    r"""\b(?:en|sobre)\s+(?:esta|estas|la|las|mi|mis|esa)\s+(?:\w+\s+)?
        (?:imagen|imágenes|fotos?|fotografías?|capturas?)\b
        (?!\s+(?:de\s+docker|de\s+marca|pública))""",
    r"""\b(?:esta|estas|esa|esas)\s+(?:imagen|imágenes|fotos?|fotografías?|capturas?)\b
        (?!\s+de\s+docker)""",
    r"\b(?:imagen|foto|captura)(?:\s+de\s+pantalla)?\s+adjunta\b",
    r"\bqué\s+(?:ves|ve|se\s+ve|muestra)(?:\s+(?:aquí|esto|ahí))?\s*(?:[?.!]|$)",
    r"\bdescrib[ea](?:me)?\s+(?:la|esta)\s+(?:imagen|foto)\b",
    # Italian
    r"""\b(?:(?:in|su|di)\s+questa|nell[ae'](?:\s+mia)?|sull[ae'])\s*
        (?:foto|immagin[ei]|schermat[ae]|screenshot)\b(?!\s+docker)""",
    r"\bquest[ae'](?:\s+|\b)(?:immagin[ei]|foto|schermat[ae])\b",
    r"\bcosa\s+(?:vedi|si\s+vede)\b | \bdescrivi(?:mi)?\s+(?:l'|la\s+)(?:immagine|foto)\b",
    # Portuguese
    r"""\b(?:nesta|nessa|na|desta|dessa|esta|essa)\s+
        (?:imagem|foto|fotografia|captura\s+de\s+(?:tela|ecrã))\b(?!\s+docker)""",
    r"\bo\s+que\s+(?:você\s+)?(?:vê|vês|se\s+vê)\b | \bdescreva\s+a\s+(?:imagem|foto)\b",
    # Dutch
    r"""\b(?:op|in|van)\s+(?:deze|dit|de|het|mijn)\s+
        (?:afbeelding|foto(?:'s)?|plaatje|schermafbeelding)\b""",
    r"\b(?:deze|dit)\s+(?:afbeelding|foto|plaatje|schermafbeelding)\b | \bwat\s+zie\s+je\b",
    # Polish and Turkish
    r"""\b(?:na|z|w)\s+(?:(?:tym|tej|tych|moim)\s+)?
        (?:zdjęci(?:u|ach)|obraz(?:ku|kach)|fotografii|zrzucie|screenie)\b""",
    r"\b(?:to|te|tego)\s+(?:zdjęci[ea]|obrazek|zrzut)\b",
    r"\b(?:bu|şu)\s+(?:resi?m\w*|fotoğraf\w*|görsel\w*|ekran\s+görüntü\w*)\b",
    r"\b(?:fotoğrafta|resimde|görselde)\b",
    # Russian
    r"""\bна\s+(?:эт(?:ой|ом|их)\s+)?(?:картинк\w+|фото|фотографи\w+|изображени\w+|скрин\w*|
        снимк\w+|рисунке)\b""",
    r"\bэт(?:а|у|о|от|и)\s+(?:картинк\w+|фото|фотографи\w+|изображени\w+|скрин\w*|снимок)\b",
    r"\bчто\s+(?:ты\s+|вы\s+)?(?:видишь|видите|изображено|показано)\b",
    # Chinese
    r"(?:这|這|那|上面的?|下面的?|附件中?的?|刚才的?)[张張幅个個些]?(?:图|圖|照片|相片|截图|截圖)(?![书書])",
    r"(?:图|圖|图片|圖片|照片|相片|截图|截圖)[里裡中上](?![传傳])面?(?:是|有|的|显示|顯示|写|寫|为|為)",
    # Japanese
    r"(?:この|その|上の|添付の?|次の|送った)(?:画像|写真|スクリーンショット|スクショ|図)",
    r"(?:画像|写真|スクショ|スクリーンショット|図)(?:の中)?には?(?:何|なに|誰|写|映|見え)",
    r"(?:画像|写真|スクショ|スクリーンショット)[をの](?:説明|描写|読|見て)",
    # Korean
    r"(?:^|\s)(?:이|그|저|위|첨부한?|첨부된)\s*(?:사진|이미지|그림|스크린샷|캡처)(?!가\s*아)",
    r"(?:사진|이미지|그림|스크린샷)(?:에서|에는?|\s*속에?)\s*(?:뭐|무엇|누가|보이|있)",
    # Arabic, Persian, Hebrew
    r"(?:هذه|تلك|في)\s+الصور[ةه] | (?:در|این)\s+(?:این\s+)?(?:عکس|تصویر) | בתמונה | תמונה\s+הזו",
    # Hindi
    r"(?:इस|उस|यह|ये)\s+(?:तस्वीर|फोटो|फ़ोटो|चित्र|छवि|स्क्रीनशॉट)",
    r"(?:तस्वीर|फोटो|फ़ोटो|चित्र)\s+में\s+(?:क्या|कौन)",
    # Vietnamese, Indonesian
    r"\b(?:bức|tấm|trong)\s+(?:ảnh|hình)\b | \b(?:gambar|foto)\s+(?:ini|itu|tersebut|di\s+atas)\b",
)
