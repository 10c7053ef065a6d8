"""Which messages need vision: sentences people write, in several languages."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem.core.vision import mentions_image, needs_vision, vision_reason
from agentmem.errors import InvalidMessage, InvalidText

ABOUT_AN_IMAGE = """
What's in this image?
what is in the picture
Describe the picture.
describe this photo in one sentence
What does this show?
What does it show?
what do you see
What do you see here?
What am I looking at?
Can you read the text in the screenshot?
Look at the photo I sent you
In the attached image, who is on the left?
Is the cat in the photo black or grey?
What color is the car in the picture?
the screenshot above shows an error, what does it mean?
Compare these two images
What's wrong in this screenshot?
Who is in the photo?
I've attached a screenshot of the error
I attached a photo of my bike, can you tell the brand?
See attached photo
Here's a pic of my plant, why are the leaves yellow?
here is a screenshot of my settings
Transcribe this handwritten note.
OCR this
Write a caption for this image.
What is this a picture of?
How many people are in the picture?
Which of these photos is better for a CV?
Please extract the table from the attached screenshot.
Can you see the picture?
what breed is the dog in this pic?
Translate the sign in the photo
How old does the man in the picture look?
What is written on the whiteboard in the second image?
Explain the diagram shown in the image above.
What does the chart in the attached screenshot say about Q3?
Is there a dog in the photo?
where was this photo taken
tell me about the painting in this picture
what's the total on the receipt in the photo?
The following image shows our floor plan. How wide is the kitchen?
take a look at this screenshot and tell me why it fails
What can you tell me about this x-ray?
can u describe the pic
screenshot attached, any idea why this happens?
What does the last image say?
What’s in this image?
Does my screenshot look right to you?
Explain this meme
what time does the clock in the image show?
Read this receipt for me
What is shown in the figure?
what is depicted here?
Why is the person in photo 2 laughing?
Was ist auf dem Bild zu sehen?
Was siehst du auf diesem Foto?
Beschreibe das Bild.
Was zeigt dieses Bild?
Kannst du den Text im Screenshot lesen? Er ist auf dem Screenshot unten.
Que vois-tu sur cette photo ?
Décris l'image
Qu'est-ce qu'on voit sur l'image ?
¿Qué ves en esta imagen?
Describe la imagen
¿Qué dice el cartel en la foto?
Cosa vedi in questa foto?
Descrivi questa immagine
O que você vê nesta imagem?
Wat zie je op deze foto?
Co jest na tym zdjęciu?
Bu resimde ne var?
Что на этой картинке?
Что изображено на фото?
这张图片里有什么？
图中的人是谁？
这张照片是在哪里拍的
この画像には何が写っていますか？
この写真を説明してください
이 사진에 뭐가 있어?
ماذا ترى في هذه الصورة؟
इस तस्वीर में क्या है?
Apa yang ada di gambar ini?
Can you explain the humor in the image?
What is unusual about this image?
Write a detailed description of the given image.
Analyze the image in a comprehensive and detailed manner.
What are the colors of the bus in the image?
What is the man doing in the image?
Is this a picture of a cat or a dog?
how much does the receipt in the photo come to?
solve the problem in the picture
convert this screenshot to HTML
turn this mockup into React code
Write the HTML for the attached mockup
What does the error in the screenshot mean?
Based on the image, what season is it?
Given the image below, count the chairs.
in the figure, what's x?
given the image, write python code to reproduce the plot
can you make this photo description shorter? The photo shows a lake. What else is in the photo?
Can you spot the difference between these two pictures?
what car is that in the pic?
I'm attaching a screenshot, the button is missing
sorry, wrong screenshot. What about this one: is the text in the image readable?
Which animal is in the photograph?
Does this chart show an upward trend?
What is the value for 2019 in the chart?
Could you check whether the screenshot I uploaded contains personal data?
Tell me what you see in the photo.
Look at this picture and write a short story about it
what does the text in the meme say
Please translate the text in this image to English
List all objects visible in the image
How many apples are in the image?
What emotion does the person in the image express?
Extract all text from the image
read the image and give me the numbers
Was steht auf dem Schild im Bild?
Kannst du mir dieses Diagramm auf dem Screenshot erklären?
Wie viele Personen sind auf dem Foto?
Que fait l'homme sur l'image ?
Peux-tu lire le texte de cette capture d'écran ?
¿Cuántas personas hay en la imagen?
¿De qué color es el coche en la foto?
Che cosa c'è nella foto?
Quantas pessoas há na foto?
图片里有几个人？
请描述这张图
写真に写っている人は誰ですか
画像の説明をしてください
사진 속에 있는 동물은?
Сколько людей на фото?
Опиши эту картинку
What is the person on the left of the photo holding?
Give me alt text for this image
suggest a caption for my photo above
the second picture is the one I mean, what's on the table?
what's written here in the picture
My screenshot shows a blank page, why?
""".strip().splitlines()

NOT_ABOUT_AN_IMAGE = """
What is the capital of France?
Write a haiku about autumn.
How do I resize an image in Python?
How do I center an image in CSS?
How can I center the image in a flexbox?
Why does my docker image fail to build?
Push the docker image to the registry
which base image should I use for the container?
This image fails to pull: nginx:latest in kubernetes
Where is the image stored in the database?
Draw me a picture of a cat
Generate an image of a sunset over the sea
Create a logo for my bakery
Make a diagram of the login flow in mermaid
Let's look at the big picture.
I get the picture, thanks.
Picture this: you are on a beach.
Can you picture a world without the internet?
She has a poor self-image.
The company's public image suffered.
How do I take a screenshot on a Mac?
How do I take a screenshot on windows 11?
Explain photosynthesis
Who invented photography?
What does this function do?
What does this error mean?
Look at this code and tell me what is wrong
I see what you mean.
As you can see, the results are good.
What do you see as the main risk?
Figure out the best way to do it
What does this show about his character that we did not know before?
the chart of accounts needs a new entry
Plot the function x^2 in matplotlib
Go figure.
What is image segmentation?
Explain image classification with CNNs
Which image format is best for the web?
Upload an image to S3 with boto3
Write a function that converts an image to grayscale
My favourite motion picture is Alien.
The image of God in Genesis
What is the mirror image of the letter b?
Set the image tag to v1.2 in the helm chart
Give me tips for taking better photos
Write a story about a photographer
How many photos can a 64 GB card hold?
I took a photo yesterday and then my phone died.
I sent a photo to my mom yesterday.
I uploaded the photo to Instagram and nobody liked it
What is the best camera for beginners?
Do you know a good photo editing app?
convert cat.png to jpg with imagemagick
add <img src="cat.png"> to the page
Map the users to their orders
Draw a graph with five nodes
In graph theory, what is a tree?
what is a picture frame made of
Thanks!
ok
Summarize our conversation so far
Remember that I prefer short answers
Translate "Bild" into English
Wie mache ich einen Screenshot unter Windows?
Erstelle ein Bild von einem Hund
Was ist ein Docker-Image?
Dessine une image de chat
Génère une image d'un coucher de soleil
Genera una imagen de un perro
¿Qué es una imagen de Docker?
Нарисуй картинку с котом
画一张猫的图片
生成一张图片
猫の画像を生成して
고양이 그림을 그려줘
Transcribe this audio
Transcribe this meeting recording
Imagine you are a pirate
What are imaging biomarkers?
The snapshot of the database is broken
I want to picture-frame my diploma
Describe the water cycle
Identify the main themes of Hamlet
Read this contract and list the risks
What is shown by this experiment?
What's the best way to store images in Postgres?
The image on the box was misleading.
I deleted the photo by accident, can I restore it?
My boss keeps a photo on his desk
Explain the phrase 'a picture is worth a thousand words'
Write a poem about an old photograph
What does Guernica by Picasso depict?
What is depicted in the Mona Lisa?
Who painted The Scream?
Which film won Best Picture in 1994?
Is the photo industry dying?
Give me a picture of how the economy works
How do I add alt text to images in HTML?
Write a regex that matches png file names
What is the difference between PNG and JPEG?
Recommend a photo printer
My wife is a photographer and loves portraits
Build an image gallery with React
Show me the chart of accounts for a small business
What is a scatter plot?
Explain this function to me
What does this regex do?
this is not what I asked for
that figure seems too high, double check the revenue
Can you figure out the answer?
Show me how to bake bread
What did the study show?
what do you see in him?
Where do you see yourself in five years?
I see, thanks for the explanation
Can you see my previous message?
Write a product description for a camera
I want to become a better photographer
Draw an ASCII picture of a dog
Make an infographic about climate change
Can you create a diagram of the water cycle?
Generate a photo-realistic image prompt for midjourney
Which docker base image is smallest?
Tag the image and push it to ghcr
My pod is in ImagePullBackOff, the image cannot be pulled from the registry
CrashLoopBackOff after I changed the image in the deployment
the screenshot tests fail in CI
How do I embed a screenshot in LaTeX?
The movie paints a grim picture of the future
From the big picture perspective, is it worth it?
How is a CT scan different from an MRI?
Run a port scan on localhost
map() vs forEach in JavaScript
Plan a trip to the photo museum in Antwerp
What time is it in Tokyo?
Wie erstelle ich ein Bild mit Python?
Welche Bildformate gibt es?
Mach dir ein Bild davon
Quelle est la meilleure image de marque ?
Comment créer une image Docker ?
La imagen pública del alcalde
Cómo hacer una captura de pantalla en Windows
Come faccio uno screenshot su Mac?
如何在Python中处理图像
画像処理のライブラリを教えて
이미지 처리 라이브러리 추천해줘
Как сделать скриншот на Windows?
Remember to send the photos to grandma
Book a photo studio for Friday
I love this song
Describe yourself
identify the bug in this function
translate this sentence into French
Read the attached contract
Summarize the attached PDF
Compare these two contracts
what's in this file?
tell me about the painting of the Sistine Chapel
""".strip().splitlines()

IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SENT: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "text", "text": "My new lamp."}, IMAGE],
}
REPLY: dict[str, Any] = {"role": "assistant", "content": "A brass lamp with a green shade."}


@pytest.mark.parametrize("sentence", ABOUT_AN_IMAGE)
def test_words_that_point_at_an_image_need_vision(sentence: str) -> None:
    assert mentions_image(sentence)
    assert vision_reason({"role": "user", "content": sentence}) == "mentioned"


@pytest.mark.parametrize("sentence", NOT_ABOUT_AN_IMAGE)
def test_words_about_something_else_do_not_need_vision(sentence: str) -> None:
    assert not mentions_image(sentence)
    assert vision_reason(sentence) is None


@pytest.mark.parametrize(
    "part",
    [
        IMAGE,
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        {"inline_data": {"mime_type": "image/jpeg", "data": "AA"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {}}]},
    ],
)
def test_a_message_that_carries_an_image_needs_vision(part: dict[str, Any]) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Thanks!"}, part]}
    assert vision_reason(message) == "attached"


def test_images_beside_the_content_count_as_carried() -> None:
    assert vision_reason({"role": "user", "content": "hi", "images": ["AAAA"]}) == "attached"


def test_audio_is_not_an_image() -> None:
    assert not needs_vision(
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA"}}]}
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "And what colour is it?",
        "where can I buy this",
        "what about the left one?",
        "Is that brass?",
    ],
)
def test_words_that_go_on_about_the_image_before_need_vision(sentence: str) -> None:
    message = {"role": "user", "content": sentence}
    assert vision_reason(message, history=[SENT, REPLY]) == "follows"
    assert vision_reason(message) is None


@pytest.mark.parametrize(
    "sentence", ["Thanks!", "Write a poem about the sea", "What is the capital of France?"]
)
def test_a_change_of_subject_after_an_image_needs_no_vision(sentence: str) -> None:
    assert vision_reason(sentence, history=[SENT, REPLY]) is None


def test_an_image_two_questions_ago_is_no_longer_followed() -> None:
    history = [SENT, REPLY, {"role": "user", "content": "Nice weather."}, REPLY]
    assert vision_reason("And what colour is it?", history=history) is None


def test_an_image_that_a_tool_brought_is_followed() -> None:
    history = [
        {"role": "user", "content": "open the page"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": [IMAGE]},
        REPLY,
    ]
    assert vision_reason("is it broken there?", history=history) == "follows"


def test_code_in_the_message_is_not_read() -> None:
    assert not needs_vision("Explain:\n```\n# what is in this image?\n```")
    assert not needs_vision("What does `this picture` name?")


def test_a_long_paste_is_read_at_both_ends_only() -> None:
    filler = "lorem ipsum " * 100_000
    assert needs_vision(filler + "\nWhat is in this picture?")
    assert needs_vision("What is in this picture?\n" + filler)
    assert not needs_vision(filler + "What is in this picture?" + filler)


def test_bad_messages_are_refused() -> None:
    with pytest.raises(InvalidMessage, match="role"):
        needs_vision({"role": "robot", "content": "hi"})
    with pytest.raises(InvalidText):
        needs_vision(None)  # type: ignore[arg-type]  # what a caller may do
    assert not needs_vision("")
